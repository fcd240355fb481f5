// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// True if a report of a comparison, or a row of one, has a column of its own
// with this name beside the metrics, which a custom metric may therefore not be
// called. Case counts. Columns whose name no metric can have, because of a
// blank, a slash or a colon, are not among them.
bool IsReportColumn(std::string_view name);

}  // namespace msitd
