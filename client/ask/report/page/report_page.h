// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::ask {

// Returns the page of the HTML report: frozen/report.html with its styles and
// its script. `%DATA%` is the placeholder for its data. Valid for the lifetime
// of the process.
std::string_view ReportPage();

}  // namespace msitd::ask
