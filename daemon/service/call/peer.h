// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Classification of peers. Pure functions.
namespace msitd::service {

// Returns whether `peer`, as named by gRPC, uses the Unix socket. Strangers can
// connect only over TCP.
inline bool IsLocal(std::string_view peer) { return peer.starts_with("unix:"); }

}  // namespace msitd::service
