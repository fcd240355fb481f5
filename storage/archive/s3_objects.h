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

// The two halves of a key of S3. Both empty: requests are not signed.
struct S3Credentials {
  std::string access_key;
  std::string secret_key;
};

struct S3Options {
  // `https://HOST[:PORT]`, or `http://` of this machine.
  std::string endpoint;
  std::string region = "us-east-1";
  std::string ca_file;  // PEM; empty: what the system trusts.
  S3Credentials credentials;

  // A request is made again after what may pass: no connection, no progress, an
  // answer that is cut off, 429 and 5xx; each time after twice the wait.
  int attempts_max = 6;
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds connect_timeout{10'000};
  // Fewer bytes a second for so long count as no progress.
  int64_t stall_bytes_per_s = 1024;
  std::chrono::seconds stall_timeout{20};

  // Once true, requests end with CANCELLED. Null: never. Outlives the store.
  const std::atomic<bool>* stops = nullptr;
  // Asked at least once a second while a request is under way or waits to be
  // made again: its error, with what was asked for, is that of the request.
  WaitCheck wait = {};
};

// Connections to a server that are kept for later requests, whatever bucket and
// prefix these are about. Thread-safe.
class S3Connections;
std::shared_ptr<S3Connections> MakeS3Connections();

// Opens the objects below `prefix`, which may be empty, of a bucket that is
// there. Asks nothing of the server.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID for an endpoint that is neither
// https nor of this machine.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3Objects(
    const S3Options& options, std::shared_ptr<S3Connections> connections,
    const std::string& bucket, const std::string& prefix);

// OK for what S3Options::endpoint may be.
absl::Status CheckS3Endpoint(std::string_view endpoint);

}  // namespace msitd::storage
