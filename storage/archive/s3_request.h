// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "protos/status/mutex.h"
#include "storage/archive/s3_answer.h"
#include "storage/archive/s3_objects.h"

// A single attempt of one request to an S3 server. Internal to s3_objects,
// which retries it.
namespace msitd::storage {

// Maximum size of an error response that is kept.
inline constexpr size_t kErrorBytesMax = size_t{64} << 10;

struct S3Request {
  enum class Method { kGet, kHead, kPut, kDelete };
  Method method = Method::kGet;
  std::string what;                    // Description for users.
  std::string key;                     // With the prefix; empty for the bucket.
  std::string query;                   // Sorted and escaped.
  std::span<const std::byte> in = {};  // Bytes to upload.
  bool if_absent = false;
  // If true, reads a range into `out`; otherwise the response is stored in
  // S3Answer::body.
  bool has_range = false;
  uint64_t offset = 0;
  std::span<std::byte> out = {};
  size_t body_bytes_max = kErrorBytesMax;
};

// Result of an attempt.
struct S3Outcome {
  S3Answer answer;
  bool is_too_long = false;  // The response has more bytes than requested.
  absl::Status ended;        // Not OK if S3Options::wait or `stops` ended the
                             // request.
};

class S3Connections {
 public:
  struct HandleEnd {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  };
  using Handle = std::unique_ptr<CURL, HandleEnd>;

  // Returns null if there is no memory.
  Handle Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Keeps the connection for the next request.
  void Return(Handle handle) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  static constexpr size_t kIdleMax = 16;

  Mutex mu_;
  std::vector<Handle> idle_ ABSL_GUARDED_BY(mu_);
};

// Returns OK as long as a request may continue.
absl::Status CheckS3Wait(const S3Options& options);

// Executes a request. Blocks for as long as `options` permit.
S3Outcome TryS3Request(const S3Options& options, S3Connections& connections,
                       const std::string& bucket, const S3Request& request);

}  // namespace msitd::storage
