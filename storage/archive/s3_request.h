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

// One request to a server of S3, once. For s3_objects, which makes it again.
namespace msitd::storage {

// What a request keeps of the answer to a failure.
inline constexpr size_t kErrorBytesMax = size_t{64} << 10;

struct S3Request {
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

// What became of it.
struct S3Outcome {
  S3Answer answer;
  bool is_too_long = false;  // The answer has more than was asked for.
  absl::Status ended;        // Not OK: S3Options::wait or `stops` has ended it.
};

class S3Connections {
 public:
  struct HandleEnd {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  };
  using Handle = std::unique_ptr<CURL, HandleEnd>;

  // Null if there is no memory.
  Handle Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Keeps the connection for the next request.
  void Return(Handle handle) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  static constexpr size_t kIdleMax = 16;

  Mutex mu_;
  std::vector<Handle> idle_ ABSL_GUARDED_BY(mu_);
};

// OK as long as a request may go on.
absl::Status CheckS3Wait(const S3Options& options);

// Makes a request. Blocks as long as `options` allow.
S3Outcome TryS3Request(const S3Options& options, S3Connections& connections,
                       const std::string& bucket, const S3Request& request);

}  // namespace msitd::storage
