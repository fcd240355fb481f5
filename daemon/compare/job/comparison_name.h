// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msitd::compare {

// Returns the name of the comparison with the id `id` in the store, such as
// `c-000001`.
std::string FormatComparisonName(uint64_t id);

// Inverse of FormatComparisonName. Returns nullopt for any other text.
std::optional<uint64_t> ParseComparisonName(std::string_view name);

}  // namespace msitd::compare
