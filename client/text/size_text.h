// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::ctl {

// Reads "4096", "512MB", "1.5 GiB" and whatever HumanSize writes: units are of
// 1024, in either case, with or without `i` and `B`. INVALID_ARGUMENT for
// anything else, for less than 0 and for more than an int64 holds.
absl::StatusOr<int64_t> ParseSize(std::string_view text);

}  // namespace msitd::ctl
