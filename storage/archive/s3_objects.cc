// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_objects.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "storage/archive/s3_answer.h"

namespace msitd::storage {
namespace {

constexpr std::chrono::milliseconds kWaitMax{10'000};
// How often a wait looks whether it is to end.
constexpr std::chrono::milliseconds kWaitStep{50};
constexpr size_t kListBytesMax = size_t{4} << 20;
constexpr size_t kErrorBytesMax = size_t{64} << 10;
constexpr long kStallBytesPerSecond = 1024;
constexpr long kExpectTimeoutMs = 200;
constexpr size_t kIdleHandlesMax = 16;

// Ends with the process.
bool StartCurl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

struct HandleEnd {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, HandleEnd>;

struct HeadersEnd {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, HeadersEnd>;

void AddHeader(Headers& headers, const char* line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line);
  if (longer == nullptr) return;
  (void)headers.release();
  headers.reset(longer);
}

// What a query may have unescaped.
std::string QueryEscaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
        c == '~') {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

struct Request {
  enum class Method { kGet, kHead, kPut, kDelete };
  Method method = Method::kGet;
  std::string what;                    // For people.
  std::string key;                     // With the prefix; empty for the bucket.
  std::string query;                   // Sorted and escaped.
  std::span<const std::byte> in = {};  // To be put.
  bool if_absent = false;
  // A range to be read into `out`; else the answer goes to S3Answer::body.
  bool has_range = false;
  uint64_t offset = 0;
  std::span<std::byte> out = {};
  size_t body_bytes_max = kErrorBytesMax;
};

// One attempt at a request.
struct Transfer {
  Request* request = nullptr;
  CURL* handle = nullptr;
  const std::atomic<bool>* stops = nullptr;
  size_t sent = 0;
  size_t received = 0;  // Of Request::out.
  bool is_too_long = false;
  S3Answer answer;
};

size_t OnBody(char* bytes, size_t size, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  const size_t length = size * count;
  long code = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &code);
  const Request& request = *transfer.request;
  if (request.has_range && code == 206) {
    if (length > request.out.size() - transfer.received) {
      transfer.is_too_long = true;
      return 0;
    }
    std::memcpy(request.out.data() + transfer.received, bytes, length);
    transfer.received += length;
    return length;
  }
  const bool is_error = code < 200 || code > 299;
  const size_t max = is_error ? kErrorBytesMax : request.body_bytes_max;
  if (transfer.answer.body.size() + length > max) {
    if (is_error) return length;
    transfer.is_too_long = true;
    return 0;
  }
  transfer.answer.body.append(bytes, length);
  return length;
}

size_t OnSend(char* bytes, size_t size, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  const auto rest = transfer.request->in.subspan(transfer.sent);
  const size_t length = std::min(size * count, rest.size());
  std::memcpy(bytes, rest.data(), length);
  transfer.sent += length;
  return length;
}

int OnRewind(void* context, curl_off_t offset, int origin) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  if (origin != SEEK_SET || offset < 0 ||
      static_cast<uint64_t>(offset) > transfer.request->in.size()) {
    return CURL_SEEKFUNC_FAIL;
  }
  transfer.sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* const stops = static_cast<Transfer*>(context)->stops;
  return stops != nullptr && stops->load() ? 1 : 0;
}

class S3Objects final : public ObjectStore {
 public:
  S3Objects(const S3Options& options, const std::string& bucket,
            const std::string& prefix)
      : options_(options),
        bucket_(bucket),
        prefix_(prefix.empty() ? "" : prefix + "/"),
        url_(fmt::format("s3://{}{}{}", bucket, prefix.empty() ? "" : "/",
                         prefix)) {
    while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  }

  const std::string& url() const override { return url_; }

  absl::StatusOr<uint64_t> Size(std::string_view key) override {
    Request request = Make(Request::Method::kHead, "look for", key);
    MSITD_ASSIGN_OR_RETURN(const S3Answer answer, Do(request));
    return answer.length;
  }

  absl::Status Read(std::string_view key, uint64_t offset,
                    std::span<std::byte> out) override {
    if (out.empty()) return absl::OkStatus();
    Request request = Make(Request::Method::kGet, "read", key);
    request.has_range = true;
    request.offset = offset;
    request.out = out;
    return Do(request).status();
  }

  absl::StatusOr<std::string> Get(std::string_view key,
                                  uint64_t bytes_max) override {
    Request request = Make(Request::Method::kGet, "read", key);
    request.body_bytes_max = bytes_max;
    MSITD_ASSIGN_OR_RETURN(S3Answer answer, Do(request));
    return std::move(answer.body);
  }

  absl::Status Put(std::string_view key,
                   std::span<const std::byte> bytes) override {
    Request request = Make(Request::Method::kPut, "write", key);
    request.in = bytes;
    return Do(request).status();
  }

  absl::Status PutIfAbsent(std::string_view key,
                           std::span<const std::byte> bytes) override {
    Request request = Make(Request::Method::kPut, "write", key);
    request.in = bytes;
    request.if_absent = true;
    return Do(request).status();
  }

  absl::Status Delete(std::string_view key) override {
    Request request = Make(Request::Method::kDelete, "delete", key);
    const absl::Status status = Do(request).status();
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::StatusOr<ObjectList> List(std::string_view folder) override {
    ObjectList out;
    std::string prefix = prefix_ + std::string(folder);
    if (!folder.empty()) prefix += '/';
    std::string next;
    do {
      Request request = Make(Request::Method::kGet, "list", folder);
      request.key.clear();
      request.body_bytes_max = kListBytesMax;
      if (!next.empty()) {
        request.query =
            fmt::format("continuation-token={}&", QueryEscaped(next));
      }
      request.query += fmt::format("delimiter=%2F&list-type=2&prefix={}",
                                   QueryEscaped(prefix));
      MSITD_ASSIGN_OR_RETURN(const S3Answer answer, Do(request));
      if (const absl::Status status =
              ReadS3List(answer.body, prefix, out, next);
          !status.ok()) {
        return Annotate(status, request.what);
      }
      if (out.folders.size() + out.objects.size() > kListedMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "{}: there are more than {} names", request.what,
                          kListedMax);
      }
    } while (!next.empty());
    std::sort(out.folders.begin(), out.folders.end());
    std::sort(out.objects.begin(), out.objects.end());
    return out;
  }

 private:
  Request Make(Request::Method method, std::string_view verb,
               std::string_view key) const {
    Request request;
    request.method = method;
    request.what =
        fmt::format("{} {}{}{}", verb, url_, key.empty() ? "" : "/", key);
    request.key = prefix_ + std::string(key);
    return request;
  }

  bool must_stop() const {
    return options_.stops != nullptr && options_.stops->load();
  }

  // Makes the request until it succeeds, it cannot succeed, or often enough.
  absl::StatusOr<S3Answer> Do(Request& request) {
    std::chrono::milliseconds wait = options_.first_wait;
    for (int attempt = 1;; ++attempt) {
      Transfer transfer = Try(request);
      if (must_stop()) {
        return MakeStatus(absl::StatusCode::kCancelled, "{}: stopped",
                          request.what);
      }
      const bool is_done = transfer.answer.problem.empty() &&
                           transfer.answer.code >= 200 &&
                           transfer.answer.code <= 299;
      if (is_done) return std::move(transfer.answer);
      if (transfer.is_too_long) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "{}: the answer is longer than what was asked for",
                          request.what);
      }
      if (!IsWorthRetry(transfer.answer)) {
        return S3Error(transfer.answer, request.what, bucket_);
      }
      if (attempt >= options_.attempts_max) {
        return Annotate(S3Error(transfer.answer, request.what, bucket_),
                        fmt::format("after {} attempts", attempt));
      }
      Wait(wait);
      wait = std::min(2 * wait, kWaitMax);
    }
  }

  // Waits for half of `wait` to all of it, so that many who were refused at
  // once do not come back at once.
  void Wait(std::chrono::milliseconds wait) {
    thread_local std::minstd_rand random{std::random_device()()};
    std::uniform_int_distribution<int64_t> spread(wait.count() / 2,
                                                  wait.count());
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(spread(random));
    while (!must_stop() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kWaitStep);
    }
  }

  Transfer Try(Request& request) {
    Transfer transfer;
    transfer.request = &request;
    transfer.stops = options_.stops;
    Handle handle = TakeHandle();
    if (handle == nullptr) {
      transfer.answer.problem = "out of memory";
      return transfer;
    }
    CURL* const curl = handle.get();
    transfer.handle = curl;
    std::string url = fmt::format("{}/{}", options_.endpoint, bucket_);
    if (!request.key.empty()) url += "/" + request.key;
    if (!request.query.empty()) url += "?" + request.query;
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    Headers headers;
    // Bytes are checked against their own hashes when they are read back.
    AddHeader(headers, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    SetCommon(curl, transfer);
    SetMethod(curl, request, headers);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    const CURLcode result = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.answer.code);
    curl_off_t length = -1;
    curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    transfer.answer.length = length < 0 ? 0 : static_cast<uint64_t>(length);
    if (result != CURLE_OK) {
      transfer.answer.problem = curl_easy_strerror(result);
    } else if (request.has_range && transfer.answer.code == 206 &&
               transfer.received < request.out.size()) {
      // The object ends here: asking again gives no more.
      transfer.answer.code = 416;
    } else if (request.has_range && transfer.answer.code == 200) {
      transfer.is_too_long = true;
      transfer.answer.problem = "the server does not read ranges";
    }
    ReturnHandle(std::move(handle));
    return transfer;
  }

  void SetCommon(CURL* curl, Transfer& transfer) const {
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    if (options_.endpoint.starts_with("http://")) {
      curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    }
    if (!options_.ca_file.empty()) {
      curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
    }
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                     static_cast<long>(options_.stall_timeout.count()));
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, OnSend);
    curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, OnRewind);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
    if (!options_.credentials.access_key.empty()) {
      const std::string signer = fmt::format("aws:amz:{}:s3", options_.region);
      const std::string user = options_.credentials.access_key + ":" +
                               options_.credentials.secret_key;
      curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signer.c_str());
      curl_easy_setopt(curl, CURLOPT_USERPWD, user.c_str());
    }
  }

  static void SetMethod(CURL* curl, const Request& request, Headers& headers) {
    switch (request.method) {
      case Request::Method::kGet:
        curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
        if (request.has_range) {
          const std::string range = fmt::format(
              "{}-{}", request.offset, request.offset + request.out.size() - 1);
          curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
        }
        return;
      case Request::Method::kHead:
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
        return;
      case Request::Method::kPut:
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                         static_cast<curl_off_t>(request.in.size()));
        // Large objects are sent once the server has taken the head, or does
        // not answer to that.
        curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, kExpectTimeoutMs);
        if (request.if_absent) AddHeader(headers, "If-None-Match: *");
        return;
      case Request::Method::kDelete:
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
        return;
    }
  }

  Handle TakeHandle() ABSL_LOCKS_EXCLUDED(mu_) {
    const MutexLock lock(mu_);
    if (idle_.empty()) return Handle(curl_easy_init());
    Handle handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
  }

  // Keeps the connection for the next request.
  void ReturnHandle(Handle handle) ABSL_LOCKS_EXCLUDED(mu_) {
    curl_easy_reset(handle.get());
    const MutexLock lock(mu_);
    if (idle_.size() < kIdleHandlesMax) idle_.push_back(std::move(handle));
  }

  S3Options options_;
  const std::string bucket_;
  const std::string prefix_;
  const std::string url_;
  Mutex mu_;
  std::vector<Handle> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status CheckS3Endpoint(std::string_view endpoint) {
  const auto invalid = [](std::string_view problem) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument, "{}", problem),
        ErrorReason::kFieldInvalid);
  };
  // Nothing of it is repeated: it could have a password in it.
  const size_t scheme_end = endpoint.find("://");
  const std::string_view scheme =
      endpoint.substr(0, scheme_end == std::string_view::npos ? 0 : scheme_end);
  if (scheme != "https" && scheme != "http") {
    return invalid(
        "the endpoint of S3 is https://HOST[:PORT], or http:// of "
        "this machine");
  }
  std::string_view host = endpoint.substr(scheme_end + 3);
  if (host.ends_with('/')) host.remove_suffix(1);
  if (host.empty() || host.find_first_of("@/?# ") != std::string_view::npos) {
    return invalid(
        "the endpoint of S3 has a host and a port, and nothing else");
  }
  if (scheme == "https") return absl::OkStatus();
  const size_t colon = host.rfind(':');
  const std::string_view name =
      host.ends_with(']') ? host : host.substr(0, colon);
  if (name != "127.0.0.1" && name != "[::1]" && name != "localhost") {
    return invalid("an endpoint of S3 on another machine needs https://");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Objects(
    const S3Options& options, const std::string& bucket,
    const std::string& prefix) {
  MSITD_RETURN_IF_ERROR(CheckS3Endpoint(options.endpoint));
  if (!StartCurl()) {
    return MakeStatus(absl::StatusCode::kUnavailable, "libcurl does not start");
  }
  return std::make_unique<S3Objects>(options, bucket, prefix);
}

}  // namespace msitd::storage
