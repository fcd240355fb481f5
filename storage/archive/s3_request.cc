// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protos/pem/trusted_roots.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr long kExpectTimeoutMs = 200;

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

// One attempt at a request.
struct Transfer {
  const S3Request* request = nullptr;
  CURL* handle = nullptr;
  const S3Options* options = nullptr;
  size_t sent = 0;
  size_t received = 0;  // Bytes of Request::out received so far.
  S3Outcome outcome;
};

size_t OnBody(char* bytes, size_t size, size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  const size_t length = size * count;
  long code = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &code);
  const S3Request& request = *transfer.request;
  if (request.has_range && code == 206) {
    if (length > request.out.size() - transfer.received) {
      transfer.outcome.is_too_long = true;
      return 0;
    }
    std::memcpy(request.out.data() + transfer.received, bytes, length);
    transfer.received += length;
    return length;
  }
  const bool is_error = code < 200 || code > 299;
  const size_t max = is_error ? kErrorBytesMax : request.body_bytes_max;
  if (transfer.outcome.answer.body.size() + length > max) {
    if (is_error) return length;
    transfer.outcome.is_too_long = true;
    return 0;
  }
  transfer.outcome.answer.body.append(bytes, length);
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
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.outcome.ended = CheckS3Wait(*transfer.options);
  return transfer.outcome.ended.ok() ? 0 : 1;
}

// libcurl has only the place that the distribution of its build uses. The
// places are searched for each request, which costs little, so that
// certificates that are installed later are found without a restart.
void SetAuthorities(CURL* curl, const S3Options& options) {
  pem::TrustedRoots roots = {options.ca_file, ""};
  if (roots.file.empty()) roots = pem::FindTrustedRoots();
  if (roots == pem::TrustedRoots()) return;
  curl_easy_setopt(curl, CURLOPT_CAINFO,
                   roots.file.empty() ? nullptr : roots.file.c_str());
  curl_easy_setopt(curl, CURLOPT_CAPATH,
                   roots.folders.empty() ? nullptr : roots.folders.c_str());
}

// `code` is an error of a transfer.
std::string ProblemOf(CURLcode code) {
  std::string out = curl_easy_strerror(code);
  if (code == CURLE_SSL_CACERT_BADFILE ||
      code == CURLE_PEER_FAILED_VERIFICATION) {
    out += "; archive_s3_ca_file names the CA of the server";
  }
  return out;
}

void SetCommon(CURL* curl, Transfer& transfer) {
  const S3Options& options = *transfer.options;
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  if (options.endpoint.starts_with("http://")) {
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  }
  SetAuthorities(curl, options);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT,
                   static_cast<long>(options.stall_bytes_per_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(options.stall_timeout.count()));
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
  if (!options.credentials.access_key.empty()) {
    const std::string signer = fmt::format("aws:amz:{}:s3", options.region);
    const std::string user =
        options.credentials.access_key + ":" + options.credentials.secret_key;
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signer.c_str());
    curl_easy_setopt(curl, CURLOPT_USERPWD, user.c_str());
  }
}

void SetMethod(CURL* curl, const S3Request& request, Headers& headers) {
  switch (request.method) {
    case S3Request::Method::kGet:
      curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
      if (request.has_range) {
        const std::string range = fmt::format(
            "{}-{}", request.offset, request.offset + request.out.size() - 1);
        curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
      }
      return;
    case S3Request::Method::kHead:
      curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
      curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
      return;
    case S3Request::Method::kPut:
      curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                       static_cast<curl_off_t>(request.in.size()));
      // Large objects are sent after the server has accepted the head, or has
      // not responded in time.
      curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, kExpectTimeoutMs);
      if (request.if_absent) AddHeader(headers, "If-None-Match: *");
      return;
    case S3Request::Method::kDelete:
      curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
      return;
  }
}

}  // namespace

S3Connections::Handle S3Connections::Take() {
  const MutexLock lock(mu_);
  if (idle_.empty()) return Handle(curl_easy_init());
  Handle handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

void S3Connections::Return(Handle handle) {
  curl_easy_reset(handle.get());
  const MutexLock lock(mu_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
}

absl::Status CheckS3Wait(const S3Options& options) {
  if (options.stops != nullptr && options.stops->load()) {
    return absl::CancelledError("stopped");
  }
  return options.wait ? options.wait() : absl::OkStatus();
}

S3Outcome TryS3Request(const S3Options& options, S3Connections& connections,
                       const std::string& bucket, const S3Request& request) {
  Transfer transfer;
  transfer.request = &request;
  transfer.options = &options;
  S3Answer& answer = transfer.outcome.answer;
  S3Connections::Handle handle = connections.Take();
  if (handle == nullptr) {
    answer.problem = "out of memory";
    return std::move(transfer.outcome);
  }
  CURL* const curl = handle.get();
  transfer.handle = curl;
  std::string url = fmt::format("{}/{}", options.endpoint, bucket);
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
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.code);
  curl_off_t length = -1;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  answer.length = length < 0 ? 0 : static_cast<uint64_t>(length);
  curl_off_t modified = -1;
  curl_easy_getinfo(curl, CURLINFO_FILETIME_T, &modified);
  answer.modify_time_s = modified < 0 ? 0 : static_cast<int64_t>(modified);
  if (result != CURLE_OK) {
    answer.problem = ProblemOf(result);
  } else if (request.has_range && answer.code == 206 &&
             transfer.received < request.out.size()) {
    // The object ends here: a retry would return no more data.
    answer.code = 416;
  } else if (request.has_range && answer.code == 200) {
    transfer.outcome.is_too_long = true;
    answer.problem = "the server does not read ranges";
  }
  connections.Return(std::move(handle));
  return std::move(transfer.outcome);
}

}  // namespace msitd::storage
