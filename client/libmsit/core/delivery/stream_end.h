// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/libmsit/core/delivery/transport.h"

// Returns what the status with which the daemon ended a stream means for the
// client, over any transport. `code` is a canonical gRPC code; `reason` is the
// name of a msitd.v1.ErrorReason, or empty.
namespace msitd::libmsit {

StreamEnd EndOf(int32_t code, std::string_view reason);

// Returns "CODE: message [REASON]".
std::string EndMessage(int32_t code, std::string_view message,
                       std::string_view reason);

// Returns the reason in a result of EndMessage; empty if it has none. A
// bracketed word in the daemon's message is not mistaken for the reason if a
// reason follows it.
std::string_view ReasonOfEnd(std::string_view end_message);

}  // namespace msitd::libmsit
