// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/compare/judge/pair_plan.h"
#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/judge/statistics_judge.h"
#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/measure/pair_measurement.h"
#include "daemon/compare/shard/layout_hint.h"
#include "msitd/v1/comparison_service.pb.h"

// Decides single pairs.
//
// The verdict on a pair follows from the pair, its plan and its measurement, so
// the functions here are pure: the same arguments give the same row. The plan
// (with the basis) and the excuse supply the necessary knowledge of other
// pairs, and the Judgment has the results that other rows need. The engine
// reads, keeps the state between pairs, and afterwards judges everything that
// needs several pairs: choices, flips and the origin of an error.
namespace msitd::compare {

// The properties of a comparison that its pairs share.
struct JudgeContext {
  const Policy& policy;
  const MatchRules& matching;
  std::string_view golden_run;
  std::string_view target_run;
  RankCounts ranks;
};

// The results for one pair that are not in its row.
struct Judgment {
  // Measured, or implied by equal bytes; empty for a pair without metrics.
  RowMetrics metrics = {};
  // Present if the summaries prove a failure: the metrics as far as they are
  // proven.
  std::optional<RowMetrics> proven_metrics;
  // True if judged() was compared with the predicate of the plan. For
  // statistics, `parts` has what was compared.
  bool has_bounds = false;
  std::vector<StatisticsOutcome::JudgedPart> parts;
  // See Verification::is_by_basis.
  bool is_by_basis = false;
  // The largest difference between integers, in words; may be empty.
  std::string difference;

  const RowMetrics& judged() const {
    return proven_metrics.has_value() ? *proven_metrics : metrics;
  }
};

// Returns the reason why a pair passes although its metrics violate the default
// bounds; nullopt if there is none.
using Excuse =
    absl::FunctionRef<std::optional<std::string>(const RowMetrics& metrics)>;

// Decides a pair that is not measured. `row` describes the pair (DescribePair)
// and receives the verdict.
Judgment JudgeUnmeasured(const TensorPair& pair, const PairPlan& plan,
                         const JudgeContext& context, v1::ComparisonRow& row);

// The same for a pair that was measured.
Judgment JudgeMeasured(const TensorPair& pair, const PairPlan& plan,
                       const PairMeasurement& measurement, Excuse excuse,
                       v1::ComparisonRow& row);

// Returns the metrics by which JudgeMeasured decides, without those of
// elements.
RowMetrics DecisiveMetrics(const TensorPair& pair, const PairPlan& plan,
                           const PairMeasurement& measurement);

// Fails the row if shards that should be equal copies differ. This overrides
// any other verdict. It applies to tensors without a counterpart only if their
// placement states that the shards are copies, or a layout does and no mapping
// states that they have no counterpart. The reasons of the others have the
// difference, and those of which a layout states it count as not compared.
void JudgeCopies(const TensorPair& pair, v1::ComparisonRow& row);

// Adds remarks on how shards were combined to a row that passes.
void AddRemarks(const TensorPair& pair, v1::ComparisonRow& row);

// Adds the views through which the sides of a pair were compared to the reason
// of the row.
void AddViews(const TensorPair& pair, v1::ComparisonRow& row);

}  // namespace msitd::compare
