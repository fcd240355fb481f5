// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <functional>
#include <utility>

#include "daemon/access/caller.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Attaches the identity of the caller to a connection, as the property
// kCallerProperty, when its first call arrives. Metadata sent by clients has no
// influence. Thread-safe.
class CallerStamp final : public grpc::AuthMetadataProcessor {
 public:
  // `identify` returns the caller of a connection, based on what the handshake
  // has proven.
  explicit CallerStamp(
      std::function<access::Caller(const grpc::AuthContext&)> identify)
      : identify_(std::move(identify)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  const std::function<access::Caller(const grpc::AuthContext&)> identify_;
  // Calls of one connection may arrive at the same time. The first one sets the
  // property, and no call reads it before the lock was released.
  Mutex mu_;
};

}  // namespace msitd::service
