// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <utility>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/match/target_names.h"
#include "protos/status/status.h"

// What may be compared of runs that are followed.
namespace msitd::compare {

absl::StatusOr<ComparisonEngine::RunMark> ComparisonEngine::Mark(
    const std::string& run) const {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, store_.GetRun(run));
  RunMark mark{info.id, info.sealed, info.counters.tensor_count,
               info.counters.payload_bytes, info.counters.conflict_count};
  if (plan_.follow && !info.sealed && plan_.activity) {
    mark.outlook =
        OutlookOf(plan_.activity(run), info.spec.world_size, plan_.silence);
  }
  return mark;
}

absl::StatusOr<ComparisonEngine::RunMark> ComparisonEngine::MarkAgain(
    const std::string& run, const RunMark& before) const {
  MSITD_ASSIGN_OR_RETURN(const RunMark mark, Mark(run));
  if (before.id == storage::RunId{} || mark.id == before.id) return mark;
  return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                               "there is no run {} any more", run),
                    "RUN_NOT_FOUND");
}

TensorMatcher::Closed ComparisonEngine::RunMark::Closed(
    bool with_stalled) const {
  TensorMatcher::Closed closed{sealed, outlook.closed};
  if (with_stalled) {
    closed.ranks.insert(outlook.stalled.begin(), outlook.stalled.end());
  }
  return closed;
}

bool ComparisonEngine::HasNews() const {
  const auto golden = Mark(plan_.golden_run);
  const auto target = Mark(plan_.target_run);
  return !golden.ok() || !target.ok() || *golden != golden_mark_ ||
         *target != target_mark_;
}

ComparisonEngine::Readiness ComparisonEngine::ReadinessOf(
    const TensorMatcher& matcher, size_t index) const {
  if (!plan_.follow) return Readiness::kAll;
  if (done_.contains({matcher.token(index), matcher.rank(index)})) {
    return Readiness::kNot;
  }
  if (matcher.IsComplete(index, golden_mark_.Closed(false),
                         target_mark_.Closed(false))) {
    return Readiness::kAll;
  }
  // What is missing may still come, and which loose names pair up hangs on it.
  const bool is_stalled = !golden_mark_.outlook.stalled.empty() ||
                          !target_mark_.outlook.stalled.empty();
  return is_stalled && !plan_.matching.fuzzy() &&
                 matcher.IsComplete(index, golden_mark_.Closed(true),
                                    target_mark_.Closed(true))
             ? Readiness::kPairs
             : Readiness::kNot;
}

std::string ComparisonEngine::EarlyName(const LogicalTensor& golden) {
  return fmt::format("{}{}{}{}{}", golden.sequence, '\0',
                     PairName(golden.key.op, golden.key), '\0',
                     golden.key.device);
}

bool ComparisonEngine::MayComeEarly(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         HasAllShards(*pair.golden) && HasAllShards(*pair.target);
}

absl::Status ComparisonEngine::PassOver(const TensorPair& pair,
                                        const EarlyRow& row) {
  RowMetrics metrics;
  if (MustMeasure(pair)) {
    const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
    if (absl::IsCancelled(measurement.status())) return measurement.status();
    if (measurement.ok()) {
      metrics = ToRowMetrics(
          measurement->metrics,
          measurement->golden_summary.value_or(pair.golden->summary));
    }
  }
  DescribePair(pair, plan_.golden_run, plan_.target_run, row_);
  row_.set_verdict(row.verdict);
  // Whose outputs come behind it needs to know of it.
  origins_.Judge(metrics, row_);
  row_numbers_.push_back(row.number);
  return absl::OkStatus();
}

}  // namespace msitd::compare
