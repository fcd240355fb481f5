// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Numbers in names of files and folders.
namespace msitd::trees {

// Returns the number that digits are; nothing for other text, or if an int64_t
// has no room for it.
std::optional<int64_t> ParseNumber(std::string_view text);

// Orders names whose parts between dots may be numbers: by the size of these,
// so that 2 comes before 10; numbers before other parts; these by their bytes.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace msitd::trees
