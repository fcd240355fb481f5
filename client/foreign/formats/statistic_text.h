// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msitd::formats {

// Returns a statistic in the form that ForeignTensor uses: a number as in JSON,
// "nan", "inf" or "-inf". Returns nothing for any other text.
std::optional<std::string> StatisticText(std::string_view text);

}  // namespace msitd::formats
