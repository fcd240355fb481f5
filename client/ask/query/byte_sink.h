// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace msitd::ask {

// Receives the next bytes. An error ends the reading.
using ByteSink = std::function<absl::Status(std::string_view)>;

// Time for a read that is not resumed. Absent: a read is resumed, and may take
// as long as a stream.
using ReadLimit = std::optional<std::chrono::milliseconds>;

}  // namespace msitd::ask
