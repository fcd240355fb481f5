// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/summary.h"

// Pairs of which a side is statistics; docs/comparison_details.md has the
// rules.
namespace msitd::compare {

// What is known of such a pair.
struct StatisticsOutcome {
  // What a policy asks of some of the statistics, and for each metric the worst
  // value that one of them has; none for metrics of many elements.
  struct Part {
    Verification verification;
    RowMetrics metrics;
  };

  v1::Verdict verdict = v1::SKIPPED;
  std::string reason;  // Of a pass as well: what was compared.
  // An equal crc32 says so, and nothing speaks against it.
  bool is_bitwise_equal = false;
  // A statistic decided nothing, because a side lacks it, or it is a checksum.
  // `reason` says which.
  bool is_in_part = false;
  // At most two: for some statistics, an integer type asks for less. None if
  // the verdict is SKIPPED.
  std::vector<Part> parts = {};
  // The part that fails, or else the first; -1 if there is none.
  int deciding_part = -1;
};

// Judges two tensors whose shapes agree, that are both real, and of which at
// least one is statistics; the other may be a tensor, whose summary is taken.
StatisticsOutcome JudgeStatistics(const LogicalTensor& target,
                                  const LogicalTensor& golden,
                                  const Policy& policy,
                                  const Basis& basis = {});

// Returns the summary as the text of statistics. Where an element is NaN, so
// are its largest one, its mean and its norm, as tools say it.
std::string StatisticsText(const Summary& summary);

// For each metric, the worse of both values.
RowMetrics Worst(const RowMetrics& a, const RowMetrics& b);

}  // namespace msitd::compare
