// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// The two halves of an S3 key. If both are empty, requests are not signed.
struct S3Credentials {
  std::string access_key;
  std::string secret_key;
};

struct S3Options {
  // `https://HOST[:PORT]`, or `http://` for this machine.
  std::string endpoint;
  std::string region = "us-east-1";
  std::string ca_file;  // PEM file; if empty, see pem::FindTrustedRoots.
  S3Credentials credentials;

  // Maximum attempts for a request, and the wait before the second one, which
  // doubles each time. Retried are temporary failures: no connection, no
  // progress, a truncated response, 429 and 5xx.
  int attempts_max = 6;
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds connect_timeout{10'000};
  // A transfer that is slower than this for this time counts as stalled.
  int64_t stall_bytes_per_s = 1024;
  std::chrono::seconds stall_timeout{20};

  // When true, requests end with CANCELLED. Null for never. Must outlive the
  // store.
  const std::atomic<bool>* stops = nullptr;
  // Called at least once a second while a request is in progress or waits to be
  // retried. An error ends the request and becomes its error, with the name of
  // the request.
  WaitCheck wait = {};
};

// Connections to a server that are kept for later requests to any bucket and
// prefix. Thread-safe.
class S3Connections;
std::shared_ptr<S3Connections> MakeS3Connections();

// Opens the objects below `prefix`, which may be empty, of an existing bucket.
// Sends no request to the server.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID for an endpoint that is neither
// https nor on this machine.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Objects(
    const S3Options& options, std::shared_ptr<S3Connections> connections,
    const std::string& bucket, const std::string& prefix);

// Returns OK if the endpoint is valid for S3Options::endpoint.
absl::Status CheckS3Endpoint(std::string_view endpoint);

}  // namespace msitd::storage
