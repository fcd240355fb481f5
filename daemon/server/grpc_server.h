// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/access_policy.h"
#include "daemon/config/daemon_config.h"
#include "daemon/server/connection_acceptor.h"
#include "daemon/server/tls_files.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"

namespace msitd::server {

// A service and its full name in the protos.
struct NamedService {
  std::string name;
  grpc::Service* service;
};

// Listens and serves, with health checks and reflection. Thread-compatible.
class GrpcServer {
 public:
  // Listens on the Unix socket and on every TCP address of `config`, and serves
  // at once. Health checks ask for the whole server or for a service by its
  // name. The services outlive the server. `policy` says who calls.
  //
  // Errors: UNAVAILABLE if an address is taken; those of the socket file and of
  // the TLS files.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const config::DaemonConfig& config, const access::AccessPolicy& policy,
      std::span<const NamedService> services);

  // Shuts down if nobody has.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Where it listens, with real port numbers: `unix:PATH` first.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  // Looks, now and then, whether the files of TLS have changed.
  void RefreshTls();
  // A path of the certificate that new connections get; empty without TLS.
  std::string certificate_in_use() const {
    return tls_files_ == nullptr ? "" : tls_files_->own_copy();
  }

  // Health checks say NOT_SERVING from here on.
  void SetNotServing();

  // Refuses new calls, waits for those under way until `deadline`, then cancels
  // them and waits for their handlers. Removes the socket,
  // unless the service manager made it.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer() = default;

  std::string socket_path_;  // Empty if the service manager listens there.
  std::vector<std::string> endpoints_;
  // Nothing without TLS.
  std::unique_ptr<TlsFiles> tls_files_;
  std::unique_ptr<grpc::Server> server_;
  ConnectionAcceptor acceptor_;
};

}  // namespace msitd::server
