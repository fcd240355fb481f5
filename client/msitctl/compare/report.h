// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

struct ReportFlags {
  std::string name;
  std::string format;  // Empty: determined by the extension of `out`.
  std::string out = "-";
  std::string mode = "all";
  bool is_compat = false;  // See MakeMsprobeSchema.
  // For msprobe and advice: a file of rules.
  std::string rules;
  std::vector<std::string> verdicts;
  bool allow_partial = false;    // See AddPartialFlag.
  bool allow_undecided = false;  // See AddUndecidedFlag.
  // Rows of an HTML page that get histograms.
  int64_t histograms = ask::kHistogramRowsDefault;
};

// Returns a usage error unless the name of a file shows the format of its
// report.
ask::Outcome CheckReportFile(const std::string& file);

// Writes a report of a stored comparison to a file, which is created completely
// or not at all, or to stdout. Reports first if the comparison is partial.
ask::Outcome WriteReport(Invocation& invocation, const ReportFlags& flags);

// The same for a comparison that has been read and shown. Ignores `name`.
ask::Outcome WriteReportOf(Invocation& invocation,
                           const v1::Comparison& comparison,
                           const ReportFlags& flags);

// The same for a report in the format that the end of `file` stands for, unless
// it is empty or the comparison is not done. `list` has what is allowed.
ask::Outcome WriteReportFile(Invocation& invocation, const std::string& file,
                             const ListFlags& list,
                             const v1::Comparison& comparison);

}  // namespace msitd::msitctl
