// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/core/delivery/transport.h"

// What the daemon's last word on a stream means to a client, whatever the
// transport. `code` is a canonical gRPC code, `reason` the name of a
// msitd.v1.ErrorReason or empty.
namespace msitd::client {

StreamEnd EndOf(int32_t code, std::string_view reason);

// "CODE: message [REASON]".
std::string EndMessage(int32_t code, std::string_view message,
                       std::string_view reason);

}  // namespace msitd::client
