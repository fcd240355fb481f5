// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::ask {

// Parses "4096", "512MB", "1.5 GiB" and whatever HumanSize writes. Units are
// powers of 1024, in either case, with or without `i` and `B`. INVALID_ARGUMENT
// for anything else, and for a size below 0 or above what an int64 holds.
absl::StatusOr<int64_t> ParseSize(std::string_view text);

}  // namespace msitd::ask
