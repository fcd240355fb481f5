// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::text {

// Parses "4096", "512MB", "1.5 GiB" and the sizes that msitctl prints. Units
// are powers of 1024, in either case, with or without `i` and `B`. Returns
// INVALID_ARGUMENT for anything else, and for a size below 0 or above the
// maximum of int64.
absl::StatusOr<int64_t> ParseSize(std::string_view text);

}  // namespace msitd::text
