// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/coarsest_difference.h"
#include "daemon/compare/job/comparison_header.h"
#include "daemon/compare/job/not_recorded.h"
#include "daemon/compare/job/run_identity.h"
#include "daemon/compare/judge/metric_bytes.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/origin/bases.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/check.h"
#include "protos/base/order_label.h"
#include "protos/base/tolerance_record.h"
#include "protos/status/status.h"

namespace msitd::compare {
std::span<const std::string_view> WatchNames() {
  static const auto& names = *new std::vector<std::string_view>([] {
    const auto metrics = MetricNames();
    std::vector<std::string_view> out(metrics.begin(), metrics.end());
    out.insert(out.end(), {"target_nan_count", "target_inf_count", "failed"});
    return out;
  }());
  return names;
}

bool TakesValues(const Selector& selector) {
  return std::any_of(selector.kinds.begin(), selector.kinds.end(), &IsValue);
}

// A sampled row does not count as equal: its hashes differ, so elements that
// were not sampled differ.
bool ComparisonEngine::HasEqualValues(const v1::ComparisonRow& row,
                                      const RowMetrics& metrics) {
  constexpr auto kMismatches =
      static_cast<size_t>(compute::Metric::kMismatchCount);
  return row.bitwise_equal() || (row.verdict() == v1::PASS && !row.sampled() &&
                                 metrics[kMismatches].value_or(0) == 0);
}

absl::Status ComparisonEngine::CheckFromAnyThread() const {
  return observer_.is_over() ? absl::CancelledError("cancelled")
                             : absl::OkStatus();
}

absl::Status ComparisonEngine::OpenRuns() {
  if (golden_ != nullptr) return absl::OkStatus();
  const bool is_golden_far = !plan_.golden_source.empty();
  const bool is_target_far = !plan_.target_source.empty();
  const storage::WaitCheck wait = [this] { return CheckFromAnyThread(); };
  std::unique_ptr<storage::RunReader> golden;
  std::unique_ptr<storage::RunReader> target;
  // The local run is opened first, so that the remote run can be opened beside
  // it.
  if (is_target_far && !is_golden_far) {
    MSITD_ASSIGN_OR_RETURN(golden, readers_.OpenRunAt(plan_.golden(), wait));
    MSITD_ASSIGN_OR_RETURN(
        target, readers_.OpenRunBeside(plan_.target(), *golden, wait));
  } else {
    MSITD_ASSIGN_OR_RETURN(target, readers_.OpenRunAt(plan_.target(), wait));
    MSITD_ASSIGN_OR_RETURN(
        golden, is_golden_far && !is_target_far
                    ? readers_.OpenRunBeside(plan_.golden(), *target, wait)
                    : readers_.OpenRunAt(plan_.golden(), wait));
  }
  golden_ = std::move(golden);
  target_ = std::move(target);
  MSITD_RETURN_IF_ERROR(CheckRunIds(wait));
  return FindOrder();
}

absl::Status ComparisonEngine::FindOrder() {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, golden_->GetInfo());
  states_tolerances_ = StatesTolerances(run.spec.labels);
  v1::JudgeContext& context = *observer_.header().mutable_judge_context();
  context.set_has_stated_tolerances(states_tolerances_);
  if (HasKnownOrder(run.spec.labels)) return absl::OkStatus();
  context.set_has_unknown_order(true);
  has_order_ = false;
  origins_.SetOrderUnknown();
  findings_.SetOrderUnknown(plan_.golden_run);
  return absl::OkStatus();
}

absl::Status ComparisonEngine::CheckRunIds(const storage::WaitCheck& wait) {
  const auto check = [&](const storage::RunAddress& run,
                         const std::string& id) -> absl::Status {
    if (id.empty()) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(const std::string found,
                           FindRunId(readers_, run, wait));
    return CheckRunId(run, id, found);
  };
  MSITD_RETURN_IF_ERROR(check(plan_.golden(), plan_.golden_run_id));
  return check(plan_.target(), plan_.target_run_id);
}

absl::Status ComparisonEngine::Run() {
  MSITD_RETURN_IF_ERROR(OpenRuns());
  if (!std::exchange(is_counted_, true)) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t total, CountGolden());
    observer_.header().set_total_count(static_cast<int64_t>(total));
  }
  // Taken before the matcher reads the runs. Data that arrives too late for the
  // matcher therefore changes the marks, and HasNews returns true.
  MSITD_ASSIGN_OR_RETURN(golden_mark_, Mark(*golden_));
  MSITD_ASSIGN_OR_RETURN(target_mark_, Mark(*target_));
  v1::Comparison& header = observer_.header();
  const auto count = [](uint64_t number) {
    return static_cast<int64_t>(number);
  };
  header.set_golden_conflict_count(count(golden_mark_.conflict_count));
  header.set_target_conflict_count(count(target_mark_.conflict_count));
  header.set_golden_left_out_count(count(golden_mark_.left_out_count));
  header.set_target_left_out_count(count(target_mark_.left_out_count));
  MSITD_RETURN_IF_ERROR(CountNotRecorded());
  if (plan_.follow) {
    ShowSilentRanks(golden_mark_.outlook.silent, target_mark_.outlook.silent,
                    header);
  }
  MSITD_ASSIGN_OR_RETURN(RanksOfRuns ranks,
                         RanksOfRuns::Find(*golden_, *target_));
  MSITD_ASSIGN_OR_RETURN(
      GroupMatcher matcher,
      GroupMatcher::Create(*golden_, *target_, plan_.selector, plan_.matching,
                           plan_.follow, [this] { return observer_.Check(); }));
  absent_.emplace(plan_.golden_run, plan_.target_run, std::move(ranks),
                  RequiredRanks{plan_.golden_required, plan_.target_required},
                  matcher);
  ShowRanks(absent_->golden().ranks(), absent_->target().ranks(), header);
  if (matcher.request_join() != nullptr) {
    ShowRequests(*matcher.request_join(), header);
  }
  MSITD_RETURN_IF_ERROR(FindLosses(matcher));
  ranks_ = {matcher.golden_ranks(), matcher.target_ranks()};
  // A run that may still grow may have more ranks later.
  const bool are_final = !plan_.follow ||
                         (golden_mark_.sealed && target_mark_.sealed) ||
                         (ranks_.golden.is_final && ranks_.target.is_final);
  origins_.SetShapesCount(are_final &&
                          ranks_.golden.count == ranks_.target.count);
  measurer_.emplace(*target_, *golden_, observer_,
                    [this](const PairTask& task, const PairAhead& ahead,
                           PairReader& reader, WorkObserver& reads) {
                      return MeasurePair(task, ahead, *target_, *golden_,
                                         reader, reads);
                    });
  absl::Status status = CompareReady(matcher);
  measurer_.reset();
  // If a run was deleted in the meantime, the rest of it could not be read, so
  // the comparison fails.
  if (status.ok()) {
    status = Mark(*golden_).status();
    status.Update(Mark(*target_).status());
  }
  first_absent_token_ = absent_->first_token();
  UpdateMayDivergeBefore(first_absent_token_, header);
  waits_ = status.ok() && plan_.follow &&
           !(golden_mark_.sealed && target_mark_.sealed);
  if (status.ok() && !waits_) {
    const std::vector<std::string> rules = idle_rules_.Texts();
    header.mutable_idle_rules()->Assign(rules.begin(), rules.end());
    ShowHints(header);
  }
  return status;
}

absl::Status ComparisonEngine::CompareReady(GroupMatcher& matcher) {
  partial_.clear();
  std::pair closed(golden_mark_.Closed(), target_mark_.Closed());
  if (closed != settled_for_) {
    settled_.clear();
    settled_for_ = std::move(closed);
  }
  GroupSet some;
  if (plan_.follow) {
    GroupCursor all(matcher.groups());
    while (const std::optional<GroupKey> key = all.Next()) {
      MSITD_RETURN_IF_ERROR(observer_.Check());
      const Readiness readiness = ReadinessOf(matcher, *key);
      if (readiness == Readiness::kNot) continue;
      some.Insert(*key);
      if (readiness != Readiness::kPairs) continue;
      partial_.insert(*key);
      early_groups_.Insert(*key);
    }
  }
  matcher.KeepPairsOf(early_groups_);
  const GroupSet& ready = plan_.follow ? some : matcher.groups();
  {
    const MutexLock lock(plans_mu_);
    plans_.clear();
  }
  GroupLoader loader(matcher, ready, observer_,
                     [this](const TensorGroup& group) { Plan(group); });
  GroupCursor keys(ready);
  while (const std::optional<GroupKey> key = keys.Next()) {
    if (findings_.WantsOrder() && key->token > findings_.token()) {
      MSITD_RETURN_IF_ERROR(OrderRanks(matcher));
    }
    if (const absl::Status status = CompareNext(loader); !status.ok()) {
      // The loader owns the pairs that the measurer reads.
      measurer_->Stop();
      return status;
    }
    if (!plan_.follow || partial_.contains(*key)) continue;
    done_.Insert(*key);
    early_.erase(*key);
  }
  return OrderRanks(matcher);
}

absl::Status ComparisonEngine::CompareNext(GroupLoader& loader) {
  for (bool is_over = false; !is_over;) {
    MSITD_RETURN_IF_ERROR(observer_.Check());
    MSITD_ASSIGN_OR_RETURN(const TensorGroup group, loader.Next());
    const absl::Status status = CompareGroup(group, TakePlans());
    // The group owns the pairs that the measurer reads.
    if (!status.ok()) measurer_->Stop();
    MSITD_RETURN_IF_ERROR(status);
    is_over = group.is_last_window;
  }
  return absl::OkStatus();
}

DType ComparisonEngine::PastTypeOf(const TensorGroup& group) {
  EarlierType& past = past_types_[group.rank];
  if (past.is_read || group.golden.empty() || group.target.empty()) {
    return past.coarsest;
  }
  past.coarsest = Coarser(
      past.coarsest,
      CoarsestDifference({golden_.get(), group.golden.front().key.rank},
                         {target_.get(), group.target.front().key.rank},
                         group.token, [this] { return CheckFromAnyThread(); }));
  past.is_read = true;
  return past.coarsest;
}

std::vector<PairBasis> ComparisonEngine::BasesOf(const TensorGroup& group) {
  // Without an order, it is not known what a tensor was computed from.
  if (!has_order_ || !group.is_whole()) return {};
  const bool is_whole = !partial_.contains({group.token, group.rank}) &&
                        plan_.selector.op_patterns.empty() &&
                        plan_.selector.ios.empty();
  PastType past_type;
  if (group.token != 0) past_type = [&] { return PastTypeOf(group); };
  std::vector<PairBasis> bases =
      FindBases(group.pairs, is_whole, past_type, received_types_[group.rank]);
  // The runs can be equal at first.
  DType& coarsest = past_types_[group.rank].coarsest;
  coarsest = Coarser(coarsest, CoarsestDifference(group.pairs));
  return bases;
}

void ComparisonEngine::Plan(const TensorGroup& group) {
  const GroupKey key{group.token, group.rank};
  const bool is_partial = partial_.contains(key);
  Plans plans;
  plans.reserve(group.pairs.size());
  std::vector<PairTask> tasks;
  PairPlanner planner(plan_.policy, plan_.reading);
  const std::vector<PairBasis> bases = BasesOf(group);
  const StatedTolerances stated = StatedTolerancesOf(group);
  for (size_t i = 0; i < group.pairs.size(); ++i) {
    const TensorPair& pair = group.pairs[i];
    const PairBasis basis = bases.empty() ? PairBasis() : bases[i];
    // Tensors that arrive later may show that the pair was computed from
    // something else.
    const bool is_later =
        is_partial && (!MayComeEarly(pair) || WaitsForCalls(key, pair) ||
                       basis != PairBasis());
    PairPlan& plan =
        plans.emplace_back(is_later ? PairPlan() : planner.Plan(pair, basis));
    if (auto found = states_tolerances_ ? stated.Find(pair) : nullptr;
        found != nullptr) {
      ApplyStatedTolerance(std::move(found), plan);
    }
    if (!plan.is_measured()) continue;
    tasks.push_back(
        {&pair, plan.verification.request, plan.is_sampled(), plan.any_order});
  }
  {
    const MutexLock lock(plans_mu_);
    plans_.push_back(std::move(plans));
  }
  measurer_->Add(tasks);
}

ComparisonEngine::Plans ComparisonEngine::TakePlans() {
  const MutexLock lock(plans_mu_);
  MSITD_CHECK(!plans_.empty());
  Plans out = std::move(plans_.front());
  plans_.pop_front();
  return out;
}

absl::StatusOr<uint64_t> ComparisonEngine::CountGolden() {
  Selector every_kind = plan_.selector;
  every_kind.kinds.clear();
  if (every_kind == Selector() && !TakesValues(plan_.selector)) {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, golden_->GetInfo());
    const auto count = [this](RecordKind kind, uint64_t count) {
      return plan_.selector.HasKind(kind) ? count : 0;
    };
    return count(RecordKind::kTensor, run.counters.tensor_count) +
           count(RecordKind::kStatistics, run.counters.statistics_count);
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         golden_->Scan(plan_.selector, ""));
  storage::TensorInfo tensor;
  const auto stop = [this] { return observer_.Check(); };
  for (uint64_t count = 0;; ++count) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop));
    if (!more) return count;
  }
}

absl::Status ComparisonEngine::CountNotRecorded() {
  // Clients report while they run, so it is sufficient to read the reports at
  // the end.
  const bool is_last = golden_mark_.sealed && target_mark_.sealed;
  if (plan_.follow && !is_last) return absl::OkStatus();
  const auto stop = [this] { return observer_.Check(); };
  MSITD_ASSIGN_OR_RETURN(const auto golden,
                         FindNotRecorded(*golden_, plan_.selector.ranks, stop));
  MSITD_ASSIGN_OR_RETURN(const auto target,
                         FindNotRecorded(*target_, plan_.selector.ranks, stop));
  observer_.header().set_golden_not_recorded_count(CountOf(golden));
  observer_.header().set_target_not_recorded_count(CountOf(target));
  return absl::OkStatus();
}

absl::Status ComparisonEngine::FindLosses(const GroupMatcher& matcher) {
  const auto stop = [this] { return observer_.Check(); };
  // Records of a run that is followed may be in transit until the end.
  const bool may_lack =
      !plan_.follow || (golden_mark_.sealed && target_mark_.sealed);
  const auto activity_of = [&](const std::string& source) {
    return may_lack && source.empty() ? &plan_.activity : nullptr;
  };
  const auto find = [&](storage::RunReader& run, bool is_target,
                        const std::string& source) {
    const auto is_compared = [&](int32_t rank) {
      return !matcher.GroupNumbersOf(is_target, rank).empty();
    };
    return compare::FindLosses(run, is_compared, activity_of(source), stop);
  };
  MSITD_ASSIGN_OR_RETURN(const LossesByRank golden,
                         find(*golden_, false, plan_.golden_source));
  MSITD_ASSIGN_OR_RETURN(const LossesByRank target,
                         find(*target_, true, plan_.target_source));
  golden_losses_ = golden.Total();
  target_losses_ = target.Total();
  golden_losses_.incomplete_count = golden_incomplete_.count();
  target_losses_.incomplete_count = target_incomplete_.count();
  ShowLossesOfRuns();
  return absl::OkStatus();
}

void ComparisonEngine::ShowLossesOfRuns() {
  ShowLosses(golden_losses_, target_losses_, observer_.header());
  UpdateMayDivergeBefore(first_absent_token_, observer_.header());
}

void ComparisonEngine::CountIncomplete(const TensorGroup& group) {
  golden_incomplete_.Add(group.token, group.golden_incomplete);
  target_incomplete_.Add(group.token, group.target_incomplete);
  if (golden_losses_.incomplete_count == golden_incomplete_.count() &&
      target_losses_.incomplete_count == target_incomplete_.count()) {
    return;
  }
  golden_losses_.incomplete_count = golden_incomplete_.count();
  target_losses_.incomplete_count = target_incomplete_.count();
  ShowLossesOfRuns();
}

absl::Status ComparisonEngine::CompareGroup(const TensorGroup& group,
                                            const Plans& plans) {
  if (!partial_.contains({group.token, group.rank})) CountIncomplete(group);
  if (!group.too_large_run.empty() || !group.not_compared.empty()) {
    v1::ComparisonRow row;
    row.set_token(group.token);
    row.set_rank(group.rank);
    row.set_request(group.request);
    row.set_verdict(v1::SKIPPED);
    row.set_not_compared(true);
    row.set_reason(
        group.too_large_run.empty()
            ? group.not_compared
            : fmt::format(
                  "run {} has more than {} tensors at this rank and token, "
                  "and the matching does not allow to compare them in parts; "
                  "narrow the filter by op",
                  group.too_large_run, kGroupTensorsMax));
    return EmitRow(RowMetrics(), nullptr, v1::InputDifference(), row);
  }
  const auto lacks = [](const RunLosses& losses) {
    return losses != RunLosses();
  };
  conditioning_.StartGroup(group.pairs, group.window == 0);
  origins_.StartGroup(group.pairs,
                      partial_.contains({group.token, group.rank}) ||
                          lacks(golden_losses_) || lacks(target_losses_));
  const absl::Status status = ComparePairs(group, plans);
  const bool is_whole = !partial_.contains({group.token, group.rank});
  conditioning_.EndGroup(is_whole);
  view_hints_.EndGroup(group);
  token_choices_.EndGroup(group);
  if (status.ok()) origins_.EndGroup(is_whole);
  if (required_tolerances_.changed()) {
    required_tolerances_.Show(observer_.header());
  }
  return status;
}

void ComparisonEngine::MarkRulesUsed(const TensorPair& pair) {
  if (pair.golden != nullptr) idle_rules_.Meet(pair.golden->key.op, true);
  if (pair.target != nullptr) idle_rules_.Meet(pair.target->key.op, false);
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor == nullptr || tensor->view == nullptr) continue;
    if (!tensor->view->rule.has_value()) continue;
    idle_rules_.MeetView(*tensor->view->rule, tensor == pair.golden);
  }
  if (pair.mapped_pair.has_value()) {
    idle_rules_.MeetMappedPair(*pair.mapped_pair);
  }
}

absl::Status ComparisonEngine::ComparePairs(const TensorGroup& group,
                                            const Plans& plans) {
  const GroupKey key{group.token, group.rank};
  const bool is_partial = partial_.contains(key);
  const auto found = early_.find(key);
  std::map<std::string, EarlyRow>* const early = is_partial ? &early_[key]
                                                 : found != early_.end()
                                                     ? &found->second
                                                     : nullptr;
  ForgetPairs();
  for (size_t i = 0; i < group.pairs.size(); ++i) {
    const TensorPair& pair = group.pairs[i];
    const PairPlan& plan = plans[i];
    MSITD_RETURN_IF_ERROR(observer_.Check());
    MarkRulesUsed(pair);
    if (plan.way == PairPlan::Way::kLater) {
      origins_.PassOver();
      conditioning_.Add(std::nullopt, std::nullopt, /*fails=*/false,
                        DType::kUnspecified);
      row_numbers_.push_back(-1);
      continue;
    }
    std::string name;
    if (early != nullptr && MayComeEarly(pair)) {
      name = EarlyName(*pair.golden);
      if (const auto row = early->find(name); row != early->end()) {
        MSITD_RETURN_IF_ERROR(PassOver(pair, plan, row->second));
        continue;
      }
    }
    DescribePair(pair, plan_.golden_run, plan_.target_run, row_);
    if (!group.request.empty()) {
      row_.set_token(group.token);
      row_.set_request(group.request);
    }
    MSITD_ASSIGN_OR_RETURN(const Judgment judgment, Judge(group, plan, row_));
    AddBounds(plan, judgment);
    row_.set_unread(plan.is_unread);
    JudgeCopies(pair, row_);
    MSITD_RETURN_IF_ERROR(JudgeChoice(group, i, plan, judgment.metrics, row_));
    const bool has_equal_values = HasEqualValues(row_, judgment.metrics);
    JudgeModelInput(group, i, plan.verification, judgment.difference,
                    has_equal_values, row_);
    DescribeBasis(group, i, plan, judgment, has_equal_values);
    AddRemarks(pair, row_);
    AddViews(pair, row_);
    AddTargetCall(pair, row_);
    if (row_.verdict() == v1::UNMATCHED) {
      MSITD_RETURN_IF_ERROR(ExplainUnmatched(pair, group.rank));
    }
    JudgeOrigin(group, plan, judgment);
    const bool is_flipped = JudgeFlipped(pair, plan);
    // A row that is skipped on request lacks a side. One that is compared only
    // in part, in views, is marked already.
    row_.set_not_compared(row_.not_compared() || is_flipped ||
                          (row_.verdict() == v1::SKIPPED &&
                           pair.golden != nullptr && pair.target != nullptr));
    MSITD_RETURN_IF_ERROR(AddToHints(pair, plan));
    AddFailure(plan);
    Watch(judgment.metrics, row_);
    row_numbers_.push_back(row_count_);
    if (is_partial) {
      early->emplace(std::move(name), EarlyRow{row_.verdict(), row_count_});
    }
    token_choices_.Note(pair, row_);
    MSITD_RETURN_IF_ERROR(
        EmitPair(group, i, plan.verification, judgment, has_equal_values));
  }
  return absl::OkStatus();
}

void ComparisonEngine::ForgetPairs() {
  row_numbers_.clear();
  reasons_.clear();
  choice_budget_ = ChoiceBudget();
  row_sum_budget_ = RowSumBudget();
  undecidable_.reset();
  tensors_of_calls_.clear();
}

absl::Status ComparisonEngine::ExplainUnmatched(const TensorPair& pair,
                                                int32_t rank) {
  // Positions, and not tokens, show where a request ends.
  if (!plan_.matching.by_request()) {
    MSITD_RETURN_IF_ERROR(absent_->ExplainEnd(pair, rank, row_));
  }
  absent_->Explain(pair, rank, row_);
  return absl::OkStatus();
}

absl::Status ComparisonEngine::EmitPair(const TensorGroup& group, size_t pair,
                                        const Verification& verification,
                                        const Judgment& judgment,
                                        bool has_equal_values) {
  v1::InputDifference inputs;
  if (HasOtherIntegers(group, pair, verification, judgment.difference, row_,
                       has_equal_values)) {
    MSITD_ASSIGN_OR_RETURN(
        inputs, DescribeInputs(group.pairs[pair], judgment.difference));
  }
  return EmitRow(judgment.metrics, &group, inputs, row_);
}

void ComparisonEngine::Watch(const RowMetrics& metrics,
                             v1::ComparisonRow& row) const {
  if (plan_.watches.empty()) return;
  std::vector<std::optional<double>> values(metrics.begin(), metrics.end());
  values.resize(WatchNames().size());
  const size_t derived = metrics.size();
  if (row.target().has_nan_count()) {
    values[derived] = static_cast<double>(row.target().nan_count());
    values[derived + 1] = static_cast<double>(row.target().infinity_count());
  }
  const bool has_failed =
      row.verdict() == v1::FAIL ||
      (row.verdict() == v1::UNMATCHED && !row.for_want_of_ranks());
  values[derived + 2] = has_failed ? 1 : 0;
  for (size_t i = 0; i < plan_.watches.size(); ++i) {
    if (plan_.watches[i].Holds(values)) {
      row.add_watches(static_cast<int32_t>(i));
    }
  }
}

absl::Status ComparisonEngine::EmitRow(
    const RowMetrics& metrics, const TensorGroup* group,
    const v1::InputDifference& input_difference, v1::ComparisonRow& row) {
  row.set_row(row_count_++);
  if (metrics != last_metrics_) {
    last_metrics_ = metrics;
    last_metrics_bytes_ = EncodeMetrics(metrics);
  }
  // The fields of a message may be concatenated in any order.
  const size_t metrics_bytes = last_metrics_bytes_.size();
  const size_t row_bytes = row.ByteSizeLong();
  std::string bytes;
  bytes.reserve(metrics_bytes + row_bytes);
  bytes += last_metrics_bytes_;
  bytes.resize(metrics_bytes + row_bytes);
  row.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(bytes.data() + metrics_bytes));
  findings_.AddRow(row, bytes, HasEqualValues(row, metrics));
  if (!input_difference.difference().empty()) {
    findings_.SetInputDifference(row, bytes, input_difference);
  }
  if (group != nullptr && row.verdict() == v1::FAIL) {
    FindMaker(*group, row, bytes);
  }
  if (findings_.changed()) findings_.Show(observer_.header());
  return observer_.OnRow(row, std::move(bytes));
}

}  // namespace msitd::compare
