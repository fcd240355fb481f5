// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/summary.h"

// Judges pairs of which at least one side is statistics instead of a tensor.
// docs/comparison_details.md has the rules.
namespace msitd::compare {

// The verdict of a pair with statistics, and its grounds.
struct StatisticsOutcome {
  // A condition of the policy for some of the statistics. For each metric,
  // `metrics` has the worst value among these statistics. Metrics that need
  // many elements are absent.
  struct JudgedPart {
    Verification verification;
    RowMetrics metrics;
  };

  v1::Verdict verdict = v1::SKIPPED;
  std::string reason;  // A pass has one, too: what was compared.
  // True if the crc32 of both sides is equal and nothing contradicts it.
  bool is_bitwise_equal = false;
  // True if some statistic is inconclusive, because a side lacks it or because
  // it is a checksum. `reason` names it.
  bool is_in_part = false;
  // At most two. In integer tensors, statistics that are computed, such as the
  // mean, have a looser condition than the others. Empty if the verdict is
  // SKIPPED.
  std::vector<JudgedPart> parts = {};
  // Index of the first part that fails, or of another one if none fails; -1 if
  // `parts` is empty.
  int deciding_part = -1;
};

// Judges two real tensors whose shapes agree. At least one of them must be
// statistics. The statistics of the other may be those of its summary.
StatisticsOutcome JudgeStatistics(const LogicalTensor& target,
                                  const LogicalTensor& golden,
                                  const Policy& policy,
                                  const Basis& basis = {});

// Returns the statistics of a summary as JSON. If an element is NaN, the
// extremes, the mean and the norm are NaN, as in the tools that record
// statistics.
std::string StatisticsText(const Summary& summary);

// Returns the worse of both values for each metric.
RowMetrics Worst(const RowMetrics& a, const RowMetrics& b);

}  // namespace msitd::compare
