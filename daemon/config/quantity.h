// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::config {

// The unit of a number in the configuration. The name of its key ends with it.
enum class Unit { kNone, kBytes, kMilliseconds, kSeconds };

// Returns the unit of a key, such as kSeconds for `retain_age_s`. The unit of a
// rate in bytes, such as `verify_bytes_per_s`, is kBytes.
Unit UnitOf(std::string_view key);

// Returns the number in `text` in this unit. A number without a unit is in the
// unit of the key. Other texts are a size such as `200GB` or `1.5GiB`, in
// powers of 1024, or a duration such as `30s` or `2d12h`.
//
// Errors: INVALID_ARGUMENT; also for a duration that is not a whole number of
// units.
absl::StatusOr<int64_t> ParseQuantity(std::string_view text, Unit unit);

}  // namespace msitd::config
