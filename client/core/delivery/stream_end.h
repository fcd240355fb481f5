// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/core/delivery/transport.h"

// What the end of a stream, as the daemon states it, means to a client over any
// transport. `code` is a canonical gRPC code; `reason` is the name of a
// msitd.v1.ErrorReason, or empty.
namespace msitd::client {

StreamEnd EndOf(int32_t code, std::string_view reason);

// "CODE: message [REASON]".
std::string EndMessage(int32_t code, std::string_view message,
                       std::string_view reason);

// Returns the reason in what EndMessage made; empty if it has none. A message
// of the daemon cannot pass for one if there is a reason behind it.
std::string_view ReasonOfEnd(std::string_view end_message);

}  // namespace msitd::client
