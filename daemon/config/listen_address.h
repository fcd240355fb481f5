// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::config {

// A TCP address to listen on.
struct ListenAddress {
  std::string host;  // Without brackets.
  uint16_t port = 0;

  // True if only this machine can reach the address. A host name other than
  // `localhost` counts as reachable from other machines, even if it resolves to
  // a loopback address.
  bool is_loopback = false;

  // True if plain TCP may be served at this address: 127.0.0.1, [::1] or
  // localhost. gRPC checks that a connection arrived over one of these.
  bool is_plain_loopback = false;

  // Formats the address for gRPC, with brackets where necessary.
  std::string ToString() const;
};

// Parses `host:port` or `[ipv6]:port`.
//
// Errors: INVALID_ARGUMENT.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace msitd::config
