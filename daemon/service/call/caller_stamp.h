// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <functional>
#include <utility>

#include "daemon/access/caller.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Writes onto a connection who calls, when its first call comes: the property
// kCallerProperty. What metadata a client sends plays no part.
// Thread-safe.
class CallerStamp final : public grpc::AuthMetadataProcessor {
 public:
  // `identify` knows the connection by what the handshake has proven.
  explicit CallerStamp(
      std::function<access::Caller(const grpc::AuthContext&)> identify)
      : identify_(std::move(identify)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  const std::function<access::Caller(const grpc::AuthContext&)> identify_;
  // Calls of one connection may come at the same time. The first one stamps it;
  // nobody reads the stamp before the lock was free.
  Mutex mu_;
};

}  // namespace msitd::service
