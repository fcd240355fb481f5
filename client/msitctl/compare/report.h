// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/msitctl/invocation.h"

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
  bool allow_partial = false;  // See AddPartialFlag.
  // Rows of an HTML page that get histograms.
  int64_t histograms = ask::kHistogramRowsDefault;
};

// Writes a report of a stored comparison to a file, which is created completely
// or not at all, or to stdout.
ask::Outcome WriteReport(Invocation& invocation, const ReportFlags& flags);

}  // namespace msitd::msitctl
