// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// A socket that listens and does not block.
struct MetricsListener {
  UniqueFd socket;
  std::string endpoint;  // For people: "http://127.0.0.1:9641/metrics".
  std::string path;      // Of a Unix socket, to be removed; else empty.
};

// Listens at `address`, a value of the key metrics_listen that is valid and not
// empty. Owner and group may use a Unix socket.
//
// Errors: UNAVAILABLE if the address is taken; those of the socket file.
absl::StatusOr<MetricsListener> ListenForMetrics(const std::string& address);

}  // namespace msitd::server
