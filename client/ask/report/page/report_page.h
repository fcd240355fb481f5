// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::ask {

// The page of the HTML report, report_page.html; `%DATA%` stands where its data
// goes. Lives as long as the process.
std::string_view ReportPage();

}  // namespace msitd::ask
