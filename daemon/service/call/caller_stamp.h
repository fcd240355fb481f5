// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <string>

#include "daemon/access/caller.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Identifies the callers of connections.
//
// gRPC lets a connection carry properties, which can be added but neither
// changed nor removed, while the role of a caller changes with the access
// policy. The property kStampProperty therefore does not contain the caller,
// but the id of the stamp of its listener, which CallerOf asks for the caller
// of each call. Metadata sent by clients has no influence. Thread-safe.
class CallerStamp final : public grpc::AuthMetadataProcessor {
 public:
  // Returns the caller of a connection, based on what the handshake has proven
  // and on the policy in force. Called for each call, on any thread.
  using Identify = std::function<access::Caller(const grpc::AuthContext&)>;

  explicit CallerStamp(Identify identify);
  ~CallerStamp() override;
  CallerStamp(const CallerStamp&) = delete;
  CallerStamp& operator=(const CallerStamp&) = delete;

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  const std::string id_;
  // Calls of one connection may arrive at the same time. The first one sets the
  // property, and no call reads it before the lock was released.
  Mutex mu_;
};

// The property of a connection that contains the id of its stamp.
inline constexpr const char* kStampProperty = "msitd_stamp";

// Returns the caller of a call, by the policy in force now; a caller without a
// name or role if the connection has no stamp.
access::Caller CallerOf(const grpc::ServerContextBase& context);

}  // namespace msitd::service
