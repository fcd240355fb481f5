// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "client/ask/report/report_writer.h"
#include "client/ask/text/conclusion.h"

namespace msitd::ask {

// Maximum number of rows in the table of a Markdown report. The others are
// counted.
inline constexpr size_t kMarkdownRowsMax = 20;

// Returns a writer of GitHub-flavored Markdown for the summary of a CI job or a
// comment: the result in a sentence, the findings, and a table of the rows that
// fail, have no counterpart or were not compared, the failing ones first.
// Texts of the runs are escaped: they cannot become markup, links or mentions.
std::unique_ptr<ReportWriter> MakeMarkdownReport(Allowed allowed,
                                                 ReportSink sink);

}  // namespace msitd::ask
