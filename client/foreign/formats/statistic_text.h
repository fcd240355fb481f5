// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msitd::formats {

// Returns a statistic as ForeignTensor has it: a number of JSON as it is
// written, or "nan", "inf" or "-inf". Nothing if `text` is neither.
std::optional<std::string> StatisticText(std::string_view text);

}  // namespace msitd::formats
