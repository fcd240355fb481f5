// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Who calls. Pure functions.
namespace msitd::service {

// Whether `peer`, as gRPC names it, came over the Unix socket: strangers come
// over TCP.
inline bool IsLocal(std::string_view peer) { return peer.starts_with("unix:"); }

}  // namespace msitd::service
