// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Numbers in names of files and folders.
namespace msitd::trees {

// Returns the number that the digits represent; nothing for other text, or if
// it exceeds an int64_t.
std::optional<int64_t> ParseNumber(std::string_view text);

// Orders names whose parts between dots may be numbers. Numbers are compared by
// value, so that 2 is before 10, and precede other parts, which are compared by
// their bytes.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace msitd::trees
