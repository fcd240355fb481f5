// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// A listening, non-blocking socket.
struct MetricsListener {
  UniqueFd socket;
  std::string endpoint;  // For users, such as "http://127.0.0.1:9641/metrics".
  std::string path;      // A Unix socket to remove; otherwise empty.
};

// Listens at `address`, a valid, non-empty value of the key metrics_listen. The
// owner and the group may connect to a Unix socket. `has_tls` only determines
// the text of the endpoint.
//
// Errors: UNAVAILABLE if the address is in use; those of the socket file.
absl::StatusOr<MetricsListener> ListenForMetrics(const std::string& address,
                                                 bool has_tls);

}  // namespace msitd::server
