// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "client/ask/report/report_writer.h"
#include "client/ask/text/conclusion.h"

namespace msitd::ask {

// Maximum number of ops that become test cases. The remaining ones are counted
// in one more test case.
inline constexpr size_t kJunitOpsMax = 20'000;

// Maximum number of rows that the text of a test case lists.
inline constexpr size_t kJunitRowsMax = 8;

// Returns a writer of JUnit XML, which CI systems display. The first test case
// is the verdict on the whole comparison. Then each op is a test case, in the
// order of its first row, with the worst result of its rows: `failure` if one
// fails or has no counterpart, otherwise `skipped` if one was not compared. The
// verdict is an `error` if it is neither PASS nor FAIL.
std::unique_ptr<ReportWriter> MakeJunitReport(Allowed allowed, ReportSink sink);

}  // namespace msitd::ask
