// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msitd::client {

// Where a daemon of this node listens unless it is told otherwise.
inline constexpr std::string_view kDefaultSocketDir = "/run/msitd";

// A daemon of this node.
struct LocalEndpoint {
  // Where it shares memory; empty if it does not.
  std::string ingest_socket;
  // Its gRPC target.
  std::string grpc_target;
};

// Understands `unix:PATH` and `PATH`, where PATH is the socket directory of a
// daemon or one of the sockets in it, and looks which of them are there. A
// daemon that is not up yet is taken to share memory, unless the endpoint
// names a gRPC socket. Nothing if `endpoint` is of another form.
std::optional<LocalEndpoint> ParseLocalEndpoint(std::string_view endpoint);

// True if there is an ingest socket in `directory`.
bool HasIngestSocket(std::string_view directory);

}  // namespace msitd::client
