// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>

#include "absl/status/status.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Passes accepted connections to gRPC. Thread-compatible.
class Handover {
 public:
  virtual ~Handover() = default;

  // Takes ownership of a connection that `listener` accepted.
  //
  // Errors: the peer may not connect. It is disconnected.
  virtual absl::Status Take(int listener, UniqueFd socket) = 0;
};

// gRPC's interface for connections that were accepted elsewhere.
using ConnectionHandler =
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

// Makes `builder` create a handler for connections with the given credentials.
ConnectionHandler AddHandler(
    grpc::ServerBuilder& builder,
    std::shared_ptr<grpc::ServerCredentials> credentials);

// Passes a connection to a handler.
void HandTo(grpc::experimental::ExternalConnectionAcceptor& handler,
            int listener, UniqueFd socket);

// Passes all connections to gRPC through one handler.
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
