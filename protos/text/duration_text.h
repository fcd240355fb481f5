// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::text {

// Parses "500ms", "30s", "2m", "1.5h", "2d", "1w", or several of these with the
// largest first, as msitctl prints them: "2d00h". A bare number is in
// seconds. INVALID_ARGUMENT for anything else, and if the result is not above
// zero or exceeds a year.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

}  // namespace msitd::text
