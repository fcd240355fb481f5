// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>

#include "absl/status/status.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Gives connections to gRPC. Thread-compatible.
class Handover {
 public:
  virtual ~Handover() = default;

  // Takes over a connection that `listener` accepted.
  //
  // Errors: the peer may not connect, and is cut off.
  virtual absl::Status Take(int listener, UniqueFd socket) = 0;
};

// What gRPC takes connections with.
using ConnectionHandler =
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

// Has `builder` make one, for connections with the given credentials.
ConnectionHandler AddHandler(
    grpc::ServerBuilder& builder,
    std::shared_ptr<grpc::ServerCredentials> credentials);

// Passes a connection on.
void HandTo(grpc::experimental::ExternalConnectionAcceptor& handler,
            int listener, UniqueFd socket);

// Gives all connections to gRPC by one handler.
class DirectHandover final : public Handover {
 public:
  explicit DirectHandover(ConnectionHandler handler)
      : handler_(std::move(handler)) {}

  absl::Status Take(int listener, UniqueFd socket) override {
    HandTo(*handler_, listener, std::move(socket));
    return absl::OkStatus();
  }

 private:
  ConnectionHandler handler_;
};

}  // namespace msitd::server
