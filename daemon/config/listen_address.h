// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::config {

// Where to listen for TCP.
struct ListenAddress {
  std::string host;  // Without brackets.
  uint16_t port = 0;

  // True if only this machine reaches it. A host name other than `localhost`
  // counts as reachable by others, whatever it resolves to.
  bool is_loopback = false;

  // True for what plain TCP may be served at: 127.0.0.1, [::1] and localhost.
  // gRPC checks that a connection came over one of these.
  bool is_plain_loopback = false;

  // As gRPC wants it, with brackets where needed.
  std::string ToString() const;
};

// Reads `host:port` or `[ipv6]:port`.
//
// Errors: INVALID_ARGUMENT.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace msitd::config
