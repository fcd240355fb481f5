// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <utility>

#include "daemon/calls/torch_function.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/match/target_names.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/status/status.h"

// Decides what can be compared of runs that still grow.
namespace msitd::compare {

namespace {

uint64_t LeftOutCount(const Selector& selector,
                      const storage::RunCounters& counters) {
  uint64_t out = 0;
  if (!TakesValues(selector)) {
    out += counters.value_count - counters.document_count;
  }
  if (!selector.HasKind(RecordKind::kStatistics)) {
    out += counters.statistics_count;
  }
  return out;
}

}  // namespace

absl::StatusOr<ComparisonEngine::RunMark> ComparisonEngine::Mark(
    storage::RunReader& run) const {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, run.GetInfo());
  RunMark mark{info.sealed, info.counters.record_count(),
               info.counters.payload_bytes, info.counters.conflict_count,
               LeftOutCount(plan_.selector, info.counters)};
  if (plan_.follow && !info.sealed && plan_.activity) {
    mark.outlook = OutlookOf(plan_.activity(run.name()), info.spec.world_size,
                             plan_.silence);
  }
  return mark;
}

GroupMatcher::Closed ComparisonEngine::RunMark::Closed() const {
  if (!outlook.are_others_closed) return {sealed, outlook.closed};
  std::set<int32_t> open = outlook.going;
  open.insert(outlook.stalled.begin(), outlook.stalled.end());
  return {sealed, std::move(open), /*is_all_but=*/true};
}

GroupMatcher::Closed ComparisonEngine::RunMark::Stalled() const {
  if (outlook.are_others_closed) {
    return {sealed, outlook.going, /*is_all_but=*/true};
  }
  std::set<int32_t> ranks = outlook.closed;
  ranks.insert(outlook.stalled.begin(), outlook.stalled.end());
  return {sealed, std::move(ranks)};
}

bool ComparisonEngine::HasNews() const {
  if (golden_ == nullptr) return true;
  const auto golden = Mark(*golden_);
  const auto target = Mark(*target_);
  return !golden.ok() || !target.ok() || *golden != golden_mark_ ||
         *target != target_mark_;
}

ComparisonEngine::Readiness ComparisonEngine::ReadinessOf(
    const GroupMatcher& matcher, const GroupKey& key) {
  if (done_.Has(key)) return Readiness::kNot;
  if (matcher.IsComplete(key, golden_mark_.Sealed(), target_mark_.Sealed())) {
    return Readiness::kAll;
  }
  // Tensors of an incomplete group may still arrive, however long nothing has
  // arrived. They can change the pairs, unless every tensor is paired by its
  // own name. With a mapping, a golden tensor may have several counterparts, so
  // EarlyName does not identify the row.
  if (!plan_.matching.pairs_by_names_alone() || settled_.contains(key) ||
      !matcher.IsComplete(key, golden_mark_.Stalled(),
                          target_mark_.Stalled())) {
    return Readiness::kNot;
  }
  if (matcher.IsComplete(key, golden_mark_.Closed(), target_mark_.Closed())) {
    settled_.insert(key);
  }
  return Readiness::kPairs;
}

std::string ComparisonEngine::EarlyName(const LogicalTensor& golden) {
  return fmt::format("{}{}{}{}{}", golden.sequence, '\0',
                     PairName(golden.key.op, golden.key), '\0',
                     golden.key.device);
}

bool ComparisonEngine::WaitsForCalls(const GroupKey& key,
                                     const TensorPair& pair) const {
  // Calls that are recorded later may change with which call a call of a
  // function is paired.
  return pair.golden != nullptr && IsTorchFunction(pair.golden->key.op) &&
         !settled_.contains(key);
}

bool ComparisonEngine::MayComeEarly(const TensorPair& pair) {
  // The type in which a parameter was computed follows from its gradients,
  // which are recorded later.
  const bool is_of_training =
      pair.golden != nullptr &&
      (pair.golden->key.io == Io::kWeight || pair.golden->key.io == Io::kState);
  if (is_of_training && pair.target != nullptr &&
      !HashesAgree(*pair.golden, *pair.target)) {
    return false;
  }
  const auto is_whole = [](const LogicalTensor* tensor) {
    // A tensor that the view reads may be recorded later.
    const bool lacks_leaf = tensor != nullptr && tensor->view != nullptr &&
                            tensor->view->lacks_leaf;
    return tensor != nullptr && HasAllShards(*tensor) && !lacks_leaf &&
           (tensor->assembly == nullptr || !tensor->assembly->is_open_ended);
  };
  return is_whole(pair.golden) && is_whole(pair.target);
}

absl::Status ComparisonEngine::PassOver(const TensorPair& pair,
                                        const PairPlan& plan,
                                        const EarlyRow& row) {
  RowMetrics metrics;
  if (plan.is_measured()) {
    const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
    if (absl::IsCancelled(measurement.status())) return measurement.status();
    if (measurement.ok()) {
      metrics = DecisiveMetrics(pair, plan, *measurement);
    }
  }
  DescribePair(pair, plan_.golden_run, plan_.target_run, row_);
  row_.set_verdict(row.verdict);
  row_.set_unread(plan.is_unread);
  // Tensors that were computed from this one need its error.
  AddToConditioning(pair, plan.basis, metrics);
  origins_.Judge(metrics, plan.basis.basis.computed_in, row_);
  row_numbers_.push_back(row.number);
  return absl::OkStatus();
}

}  // namespace msitd::compare
