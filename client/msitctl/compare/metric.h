// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/msitctl/flag/plugin_flags.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

struct MetricFlags {
  std::string comparison;
  std::vector<std::string> verdicts;
  PluginFlags plugins;
};

// Measures the rows of a stored comparison with plug-ins, adds the metrics to
// it, and prints their numbers.
ask::Outcome MeasureComparison(Invocation& invocation,
                               const MetricFlags& flags);

// The results of one metric.
struct MetricCounts {
  int64_t row_count = 0;
  int64_t value_count = 0;
  std::string first_problem;  // The problem of the first row without a value.
};

// Measures rows of `comparison`, which must be finished, and adds the metrics
// to them as they are computed. `verdicts` selects rows; an empty list stands
// for all. Fills `counts` with one MetricCounts for each plug-in, and keeps
// `comparison` up to date.
ask::Outcome AddOwnMetrics(
    Invocation& invocation,
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    uint64_t pair_bytes_max, const std::vector<v1::Verdict>& verdicts,
    v1::Comparison& comparison, std::vector<MetricCounts>& counts);

// Prints on stderr the rows without a value. Returns an error if a plug-in was
// given up, or has no value for any of its rows.
ask::Outcome TellOfProblems(
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    const std::vector<MetricCounts>& counts);

}  // namespace msitd::msitctl
