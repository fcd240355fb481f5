// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// True if a report of a comparison, or a row of one, has a column of this name
// beside the metrics: then no custom metric may have the name. Case matters.
// Columns whose names no metric can have, because of a blank, a slash or a
// colon, do not count.
bool IsReportColumn(std::string_view name);

}  // namespace msitd
