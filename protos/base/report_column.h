// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// True if a report of a comparison, or one of its rows, has a column of this
// name in addition to the metrics, so that custom metrics must not use the
// name. Case-sensitive. Columns whose names are invalid for metrics, because of
// a blank, a slash or a colon, are not included.
bool IsReportColumn(std::string_view name);

}  // namespace msitd
