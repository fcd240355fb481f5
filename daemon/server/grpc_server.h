// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/live_policy.h"
#include "daemon/config/daemon_config.h"
#include "daemon/server/caller_slots.h"
#include "daemon/server/connection_acceptor.h"
#include "daemon/server/tls_files.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"

namespace msitd::server {

// A service and its full name in the .proto files.
struct NamedService {
  std::string name;
  grpc::Service* service;
};

// The gRPC server, with health checks and reflection. Thread-compatible.
class GrpcServer {
 public:
  // Listens on the Unix socket and on every TCP address of `config`, and starts
  // serving immediately. Health checks can query the whole server or a service
  // by its name. The services and `policy`, which identifies callers, must
  // outlive the server.
  //
  // Errors: UNAVAILABLE if an address is in use; those of the socket file and
  // of the TLS files.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const config::DaemonConfig& config, const access::LivePolicy& policy,
      std::span<const NamedService> services);

  // Calls Shutdown if it was not called.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Returns the endpoints with their actual port numbers. `unix:PATH` is first.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  // Checks whether the TLS files have changed, at most once per interval.
  void RefreshTls();
  // Checks them now. Returns the problem of files that are not used, or
  // nothing.
  std::string ReloadTls();
  // Returns a path of the certificate used for new connections; empty without
  // TLS.
  std::string certificate_in_use() const {
    return tls_files_ == nullptr ? "" : tls_files_->own_copy();
  }

  // Must be called after each change of the policy.
  void ApplyPolicy() { callers_->ApplyPolicy(); }

  // Whether this process created the Unix socket.
  bool owns_socket() const { return !socket_path_.empty(); }
  // Of ConnectionAcceptor.
  size_t connection_count() const { return acceptor_.connection_count(); }
  uint64_t accepted_count() const { return acceptor_.accepted_count(); }

  // Makes health checks return NOT_SERVING.
  void SetNotServing();

  // Refuses new calls, waits until `deadline` for calls in progress, then
  // cancels them and waits for their handlers. Removes the socket file, unless
  // the service manager created it.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer() = default;

  std::string socket_path_;  // Empty if the service manager listens there.
  std::vector<std::string> endpoints_;
  // Null without TLS.
  std::unique_ptr<TlsFiles> tls_files_;
  std::unique_ptr<grpc::Server> server_;
  ConnectionAcceptor acceptor_;
  CallerSlots* callers_ = nullptr;  // Owned by the acceptor.
};

}  // namespace msitd::server
