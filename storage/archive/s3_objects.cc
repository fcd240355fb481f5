// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_objects.h"

#include <curl/curl.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/archive/s3_answer.h"
#include "storage/archive/s3_request.h"

namespace msitd::storage {
namespace {

constexpr std::chrono::milliseconds kWaitMax{10'000};
// Interval at which a wait checks whether it must end.
constexpr std::chrono::milliseconds kWaitStep{50};
constexpr size_t kListBytesMax = size_t{4} << 20;

// Never cleaned up; curl stays initialized until the process ends.
bool StartCurl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

// Escapes all characters that a query must not contain.
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

class S3Objects final : public ObjectStore {
 public:
  S3Objects(const S3Options& options,
            std::shared_ptr<S3Connections> connections,
            const std::string& bucket, const std::string& prefix)
      : options_(options),
        bucket_(bucket),
        prefix_(prefix.empty() ? "" : prefix + "/"),
        url_(fmt::format("s3://{}{}{}", bucket, prefix.empty() ? "" : "/",
                         prefix)),
        connections_(std::move(connections)) {
    while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  }

  const std::string& url() const override { return url_; }

  absl::StatusOr<ObjectStat> Stat(std::string_view key) override {
    S3Request request = Make(S3Request::Method::kHead, "look for", key);
    MSITD_ASSIGN_OR_RETURN(const S3Answer answer, Do(request));
    return ObjectStat{answer.length, answer.modify_time_s};
  }

  absl::Status Read(std::string_view key, uint64_t offset,
                    std::span<std::byte> out) override {
    if (out.empty()) return absl::OkStatus();
    S3Request request = Make(S3Request::Method::kGet, "read", key);
    request.has_range = true;
    request.offset = offset;
    request.out = out;
    return Do(request).status();
  }

  absl::StatusOr<std::string> Get(std::string_view key,
                                  uint64_t bytes_max) override {
    S3Request request = Make(S3Request::Method::kGet, "read", key);
    request.body_bytes_max = bytes_max;
    MSITD_ASSIGN_OR_RETURN(S3Answer answer, Do(request));
    return std::move(answer.body);
  }

  absl::Status Put(std::string_view key,
                   std::span<const std::byte> bytes) override {
    S3Request request = Make(S3Request::Method::kPut, "write", key);
    request.in = bytes;
    return Do(request).status();
  }

  absl::Status PutIfAbsent(std::string_view key,
                           std::span<const std::byte> bytes) override {
    S3Request request = Make(S3Request::Method::kPut, "write", key);
    request.in = bytes;
    request.if_absent = true;
    return Do(request).status();
  }

  absl::Status Delete(std::string_view key) override {
    S3Request request = Make(S3Request::Method::kDelete, "delete", key);
    const absl::Status status = Do(request).status();
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::StatusOr<ObjectList> List(std::string_view folder) override {
    ObjectList out;
    std::string prefix = prefix_ + std::string(folder);
    if (!folder.empty()) prefix += '/';
    std::string next;
    std::string last;
    do {
      last = next;
      S3Request request = Make(S3Request::Method::kGet, "list", folder);
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
      if (!next.empty() && next == last) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "{}: the list of objects does not go on",
                          request.what);
      }
      if (out.folders.size() + out.objects.size() > kListedMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "{}: there are more than {} names", request.what,
                          kListedMax);
      }
    } while (!next.empty());
    std::sort(out.folders.begin(), out.folders.end());
    // A server without support for delimiters lists the folder of each object.
    out.folders.erase(std::unique(out.folders.begin(), out.folders.end()),
                      out.folders.end());
    std::sort(out.objects.begin(), out.objects.end());
    return out;
  }

 private:
  S3Request Make(S3Request::Method method, std::string_view verb,
                 std::string_view key) const {
    S3Request request;
    request.method = method;
    request.what =
        fmt::format("{} {}{}{}", verb, url_, key.empty() ? "" : "/", key);
    request.key = prefix_ + std::string(key);
    return request;
  }

  // Sends the request until it succeeds, fails permanently, or has been tried
  // often enough.
  absl::StatusOr<S3Answer> Do(const S3Request& request) {
    std::chrono::milliseconds wait = options_.first_wait;
    for (int attempt = 1;; ++attempt) {
      S3Outcome outcome =
          TryS3Request(options_, *connections_, bucket_, request);
      S3Answer& answer = outcome.answer;
      if (!outcome.ended.ok()) return Ended(outcome.ended, request, attempt);
      if (answer.problem.empty() && answer.code >= 200 && answer.code <= 299) {
        return std::move(answer);
      }
      if (outcome.is_too_long) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "{}: the answer is longer than what was asked for",
                          request.what);
      }
      if (!IsWorthRetry(answer)) return S3Error(answer, request.what, bucket_);
      if (attempt >= options_.attempts_max) {
        return Annotate(S3Error(answer, request.what, bucket_),
                        fmt::format("after {} attempts", attempt));
      }
      if (const absl::Status ended = Wait(wait); !ended.ok()) {
        return Ended(ended, request, attempt,
                     Message(S3Error(answer, request.what, bucket_)));
      }
      wait = std::min(2 * wait, kWaitMax);
    }
  }

  // Returns the error of a request that was ended; `last` is the error of its
  // last attempt.
  static absl::Status Ended(const absl::Status& status,
                            const S3Request& request, int attempt,
                            std::string_view last = "") {
    return Annotate(status,
                    last.empty()
                        ? fmt::format("{}: no answer yet to attempt {}",
                                      request.what, attempt)
                        : fmt::format("after {} attempts: {}", attempt, last));
  }

  // Waits for a random time between half of `wait` and `wait`, so that callers
  // that were refused at the same time do not retry at the same time.
  absl::Status Wait(std::chrono::milliseconds wait) {
    thread_local std::minstd_rand random{std::random_device()()};
    std::uniform_int_distribution<int64_t> spread(wait.count() / 2,
                                                  wait.count());
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(spread(random));
    while (true) {
      MSITD_RETURN_IF_ERROR(CheckS3Wait(options_));
      if (std::chrono::steady_clock::now() >= end) return absl::OkStatus();
      std::this_thread::sleep_for(kWaitStep);
    }
  }

  S3Options options_;
  const std::string bucket_;
  const std::string prefix_;
  const std::string url_;
  const std::shared_ptr<S3Connections> connections_;
};

}  // namespace

std::shared_ptr<S3Connections> MakeS3Connections() {
  return std::make_shared<S3Connections>();
}

absl::Status CheckS3Endpoint(std::string_view endpoint) {
  const auto invalid = [](std::string_view problem) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument, "{}", problem),
        ErrorReason::kFieldInvalid);
  };
  // The message does not repeat any part of it, because it could contain a
  // password.
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
    const S3Options& options, std::shared_ptr<S3Connections> connections,
    const std::string& bucket, const std::string& prefix) {
  MSITD_RETURN_IF_ERROR(CheckS3Endpoint(options.endpoint));
  if (!StartCurl()) {
    return MakeStatus(absl::StatusCode::kUnavailable, "libcurl does not start");
  }
  return std::make_unique<S3Objects>(options, std::move(connections), bucket,
                                     prefix);
}

}  // namespace msitd::storage
