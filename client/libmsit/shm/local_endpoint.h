// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msitd::libmsit {

// A daemon on this node.
struct LocalEndpoint {
  // The ingest socket; empty if the daemon does not share memory.
  std::string ingest_socket;
  // The gRPC target of the daemon.
  std::string grpc_target;
};

// Parses `unix:PATH` or `PATH`, where PATH is the socket directory of a daemon
// or a socket in it, and checks which of its sockets exist. A daemon that is
// not running yet is assumed to share memory, unless the endpoint names its
// gRPC socket. Returns nullopt if `endpoint` has another form.
std::optional<LocalEndpoint> ParseLocalEndpoint(std::string_view endpoint);

}  // namespace msitd::libmsit
