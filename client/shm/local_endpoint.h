// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msitd::client {

// Default socket directory of a daemon.
inline constexpr std::string_view kDefaultSocketDir = "/run/msitd";

// A daemon of this node.
struct LocalEndpoint {
  // Its ingest socket; empty if it does not share memory.
  std::string ingest_socket;
  // Its gRPC target.
  std::string grpc_target;
};

// Understands `unix:PATH` and `PATH`, where PATH is the socket directory of a
// daemon or a socket in it, and looks which of its sockets exist. A daemon that
// is not up yet is assumed to share memory, unless the endpoint names its gRPC
// socket. Nothing if `endpoint` has another form.
std::optional<LocalEndpoint> ParseLocalEndpoint(std::string_view endpoint);

// True if there is an ingest socket in `directory`.
bool HasIngestSocket(std::string_view directory);

}  // namespace msitd::client
