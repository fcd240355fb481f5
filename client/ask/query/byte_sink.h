// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace msitd::ask {

// Receives the next bytes. An error ends the reading.
using ByteSink = std::function<absl::Status(std::string_view)>;

}  // namespace msitd::ask
