// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/measure/joined_sample.h"
#include "daemon/compare/measure/pair_source.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

void Decide(v1::Verdict verdict, std::string reason, v1::ComparisonRow& row) {
  row.set_verdict(verdict);
  row.set_reason(std::move(reason));
}

bool SelectsAll(const storage::TensorSelector& selector) {
  return selector.ranks.empty() && selector.devices.empty() &&
         selector.tokens.empty() && selector.op_patterns.empty() &&
         selector.ios.empty();
}

// What would pass, for a reason.
std::string ToleranceNeeded(const compute::ElementRequest& request,
                            const compute::ElementMetrics& elements) {
  const double atol = elements[compute::ElementMetric::kAtolNeeded].value_or(0);
  const double rtol = elements[compute::ElementMetric::kRtolNeeded].value_or(0);
  return fmt::format(
      " (rtol {:g}, atol {:g}); passes with atol {:.6g} or rtol {:.6g}",
      request.rtol, request.atol, atol, rtol);
}

std::vector<int64_t> Squeezed(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

bool ShapesAgree(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                 ShapeRule rule) {
  if (a == b) return true;
  if (rule == ShapeRule::kCount) return ElementCount(a) == ElementCount(b);
  return rule == ShapeRule::kSqueeze && Squeezed(a) == Squeezed(b);
}

// Decides the row if the shards of a side cannot be put together.
bool IsWhole(const LogicalTensor& tensor, std::string_view side,
             v1::ComparisonRow& row) {
  if (HasAllShards(tensor)) return true;
  const Assembly& assembly = *tensor.assembly;
  Decide(assembly.problem == Assembly::Problem::kShardsAmiss ? v1::UNMATCHED
                                                             : v1::SKIPPED,
         fmt::format("{} {}: {}", side, AssemblyText(assembly),
                     assembly.problem_text),
         row);
  return false;
}

// Fails the row if shards that should be copies are not, whatever the first of
// them is worth.
void JudgeCopies(const TensorPair& pair, v1::ComparisonRow& row) {
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor == nullptr || tensor->assembly == nullptr) continue;
    const Assembly& assembly = *tensor->assembly;
    if (assembly.difference.empty()) continue;
    std::string reason =
        fmt::format("{} {}: {}", tensor == pair.golden ? "golden" : "target",
                    AssemblyText(assembly), assembly.difference);
    if (!row.reason().empty()) reason += "; " + row.reason();
    row.set_bitwise_equal(false);
    Decide(row.verdict() == v1::UNMATCHED ? v1::UNMATCHED : v1::FAIL,
           std::move(reason), row);
  }
}

// Of all shards, if it is made of some.
bool HasBytesOrSamples(const LogicalTensor& tensor) {
  if (tensor.has_bytes || tensor.assembly == nullptr) {
    return tensor.has_bytes || tensor.has_sample;
  }
  const std::vector<storage::TensorInfo>& shards = tensor.assembly->shards;
  return std::all_of(shards.begin(), shards.end(),
                     [](const storage::TensorInfo& shard) {
                       return shard.has_bytes || shard.has_sample;
                     });
}

// True if what is kept of a tensor that has all its shards has its sample.
bool HasSample(const LogicalTensor& tensor) {
  if (tensor.has_bytes || tensor.assembly == nullptr) {
    return tensor.has_bytes || tensor.has_sample;
  }
  return HasJoinedSample(tensor.assembly->grid, tensor.assembly->shards);
}

// Of a pair that is measured: there are samples only of a side.
bool IsSampled(const TensorPair& pair) {
  return !pair.golden->has_bytes || !pair.target->has_bytes;
}

// `sampled: 1000 of 65536 elements`.
std::string SampleText(const LogicalTensor& golden) {
  const uint64_t count = ElementCount(golden.shape);
  return fmt::format("sampled: {} of {} elements", SampleCount(count), count);
}

// Of sides that all have bytes or samples of what they are made of.
std::string WhySamplesDoNotDecide(const TensorPair& pair) {
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (HasSample(*tensor)) continue;
    return fmt::format(
        "; the samples of its shards do not have the sample of the {} tensor, "
        "every element of which has a number divisible by {}",
        tensor == pair.golden ? "golden" : "target",
        SampleStep(ElementCount(tensor->shape)));
  }
  return "; a sample does not prove that bytes are equal";
}

absl::StatusOr<PairMeasurement> MeasureAhead(
    const TensorPair& pair, const PartsAhead& ahead,
    const compute::ElementRequest& request, PairReader& reader,
    WorkObserver& reads) {
  if (pair.target->assembly == nullptr && pair.golden->assembly == nullptr) {
    return PairReader::MeasureAhead(*pair.target, *pair.golden, ahead, request,
                                    reads);
  }
  const TensorSource target = SourceAhead(*pair.target, "target", ahead);
  const TensorSource golden =
      SourceAhead(*pair.golden, "golden",
                  {ahead.batch, ahead.first + target.shards.size()});
  return reader.Measure(target, golden, request, reads);
}

std::string_view SideWithoutBytes(const TensorPair& pair) {
  if (pair.golden->has_bytes) return "target";
  return pair.target->has_bytes ? "golden" : "golden and target";
}

}  // namespace

std::span<const std::string_view> WatchNames() {
  static const auto& names = *new std::vector<std::string_view>([] {
    const auto metrics = MetricNames();
    std::vector<std::string_view> out(metrics.begin(), metrics.end());
    out.insert(out.end(), {"target_nan_count", "target_inf_count", "failed"});
    return out;
  }());
  return names;
}

absl::Status ComparisonEngine::Run() {
  if (!std::exchange(is_counted_, true)) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t total, CountGolden());
    observer_.OnTotal(total);
  }
  // Asked before the matcher looks at the runs, so that nothing that it does
  // not see comes behind.
  MSITD_ASSIGN_OR_RETURN(golden_mark_,
                         MarkAgain(plan_.golden_run, golden_mark_));
  MSITD_ASSIGN_OR_RETURN(target_mark_,
                         MarkAgain(plan_.target_run, target_mark_));
  observer_.OnConflicts(golden_mark_.conflict_count,
                        target_mark_.conflict_count);
  if (plan_.follow) {
    observer_.OnSilentRanks(golden_mark_.outlook.silent,
                            target_mark_.outlook.silent);
  }
  MSITD_ASSIGN_OR_RETURN(
      RanksOfRuns ranks,
      RanksOfRuns::Find(store_, plan_.golden_run, plan_.target_run));
  MSITD_ASSIGN_OR_RETURN(
      const TensorMatcher matcher,
      TensorMatcher::Create(store_, plan_.golden_run, plan_.target_run,
                            plan_.selector, plan_.matching, plan_.follow));
  absent_.emplace(plan_.golden_run, plan_.target_run, std::move(ranks),
                  matcher);
  observer_.OnRanks(absent_->golden.ranks(), absent_->target.ranks());
  ranks_ = {matcher.golden_ranks(), matcher.target_ranks()};
  measurer_.emplace(store_, observer_,
                    [this](const TensorPair& pair, const PartsAhead& ahead,
                           PairReader& reader, WorkObserver& reads) {
                      return ReadMetrics(pair, ahead, reader, reads);
                    });
  absl::Status status = CompareReady(matcher);
  measurer_.reset();
  // Of a run that went meanwhile, what was left could not be read.
  if (status.ok()) {
    status = MarkAgain(plan_.golden_run, golden_mark_).status();
    status.Update(MarkAgain(plan_.target_run, target_mark_).status());
  }
  observer_.OnFirstAbsent(absent_->first_token());
  waits_ = status.ok() && plan_.follow &&
           !(golden_mark_.sealed && target_mark_.sealed);
  return status;
}

absl::Status ComparisonEngine::CompareReady(const TensorMatcher& matcher) {
  std::vector<size_t> ready;
  partial_.clear();
  for (size_t i = 0; i < matcher.group_count(); ++i) {
    if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
    const Readiness readiness = ReadinessOf(matcher, i);
    if (readiness == Readiness::kNot) continue;
    ready.push_back(i);
    if (readiness == Readiness::kPairs) {
      partial_.emplace(matcher.token(i), matcher.rank(i));
    }
  }
  GroupLoader loader(
      matcher, ready, observer_,
      [this](const TensorGroup& group) { AddToMeasurer(group); });
  for (const size_t i : ready) {
    if (findings_.WantsOrder() && matcher.token(i) > findings_.token()) {
      MSITD_RETURN_IF_ERROR(OrderRanks(matcher));
    }
    if (const absl::Status status = CompareNext(loader); !status.ok()) {
      // The pairs go with the loader.
      measurer_->Stop();
      return status;
    }
    const GroupKey key{matcher.token(i), matcher.rank(i)};
    if (!plan_.follow || partial_.contains(key)) continue;
    done_.insert(key);
    early_.erase(key);
  }
  return OrderRanks(matcher);
}

absl::Status ComparisonEngine::CompareNext(GroupLoader& loader) {
  if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
  MSITD_ASSIGN_OR_RETURN(const TensorGroup group, loader.Next());
  absl::Status status = CompareGroup(group);
  // The pairs go with the group.
  if (!status.ok()) measurer_->Stop();
  return status;
}

void ComparisonEngine::AddToMeasurer(const TensorGroup& group) {
  std::vector<const TensorPair*> to_measure;
  for (const TensorPair& pair : group.pairs) {
    if (MustMeasure(pair)) to_measure.push_back(&pair);
  }
  measurer_->Add(to_measure);
}

absl::StatusOr<uint64_t> ComparisonEngine::CountGolden() {
  if (SelectsAll(plan_.selector)) {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run,
                           store_.GetRun(plan_.golden_run));
    return run.counters.tensor_count;
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         store_.Scan(plan_.golden_run, plan_.selector, ""));
  storage::TensorInfo tensor;
  const auto stop = [this] {
    return observer_.IsCancelled() ? absl::CancelledError("cancelled")
                                   : absl::OkStatus();
  };
  for (uint64_t count = 0;; ++count) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop));
    if (!more) return count;
  }
}

absl::Status ComparisonEngine::CompareGroup(const TensorGroup& group) {
  if (!group.too_large_run.empty()) {
    v1::ComparisonRow row;
    row.set_token(group.token);
    row.set_rank(group.rank);
    Decide(v1::SKIPPED,
           fmt::format("run {} has more than {} tensors at this rank and "
                       "token; narrow the filter by op",
                       group.too_large_run, kGroupTensorsMax),
           row);
    return EmitRow(RowMetrics(), nullptr, row);
  }
  origins_.StartGroup(group.pairs);
  const absl::Status status = ComparePairs(group);
  if (required_tolerances_.changed()) {
    observer_.OnRequiredTolerances(required_tolerances_);
  }
  return status;
}

absl::Status ComparisonEngine::ComparePairs(const TensorGroup& group) {
  const GroupKey key{group.token, group.rank};
  const bool is_partial = partial_.contains(key);
  const auto found = early_.find(key);
  std::map<std::string, EarlyRow>* const early = is_partial ? &early_[key]
                                                 : found != early_.end()
                                                     ? &found->second
                                                     : nullptr;
  row_numbers_.clear();
  for (const TensorPair& pair : group.pairs) {
    if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
    std::string name;
    if (early != nullptr && MayComeEarly(pair)) {
      name = EarlyName(*pair.golden);
      if (const auto row = early->find(name); row != early->end()) {
        MSITD_RETURN_IF_ERROR(PassOver(pair, row->second));
        continue;
      }
    }
    if (is_partial && name.empty()) {
      origins_.PassOver();
      row_numbers_.push_back(-1);
      continue;
    }
    DescribePair(pair, plan_.golden_run, plan_.target_run, row_);
    RowMetrics metrics;
    if (MustMeasure(pair)) {
      MSITD_RETURN_IF_ERROR(Measure(pair, row_, metrics));
    } else {
      Judge(pair, row_, metrics);
    }
    JudgeCopies(pair, row_);
    if (row_.verdict() == v1::UNMATCHED) {
      absent_->Explain(pair, group.rank, row_);
    }
    if (row_.verdict() == v1::FAIL) required_tolerances_.AddFailure(row_count_);
    origins_.Judge(metrics, row_);
    Watch(metrics, row_);
    row_numbers_.push_back(row_count_);
    if (is_partial) {
      early->emplace(std::move(name), EarlyRow{row_.verdict(), row_count_});
    }
    MSITD_RETURN_IF_ERROR(EmitRow(metrics, &group, row_));
  }
  return absl::OkStatus();
}

bool ComparisonEngine::MustMeasure(const TensorPair& pair) const {
  if (pair.golden == nullptr || pair.target == nullptr) return false;
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  const bool is_undecided =
      !HashesAgree(target, golden) && HasBytesOrSamples(golden) &&
      HasBytesOrSamples(target) &&
      (golden.tensor_bytes != 0 || target.tensor_bytes != 0) &&
      IsComplex(target.dtype) == IsComplex(golden.dtype) &&
      HasAllShards(target) && HasAllShards(golden) &&
      ShapesAgree(target.shape, golden.shape, plan_.policy.shape_rule());
  if (!is_undecided || !IsSampled(pair)) return is_undecided;
  return !VerificationOf(pair).hash_decides && HasSample(golden) &&
         HasSample(target);
}

void ComparisonEngine::Judge(const TensorPair& pair, v1::ComparisonRow& row,
                             RowMetrics& metrics) const {
  if (pair.golden == nullptr || pair.target == nullptr) {
    const bool is_golden = pair.golden != nullptr;
    JudgeAlone(is_golden ? *pair.golden : *pair.target, is_golden, row);
    return;
  }
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  if (!IsWhole(target, "target", row) || !IsWhole(golden, "golden", row)) {
    return;
  }
  if (!ShapesAgree(target.shape, golden.shape, plan_.policy.shape_rule())) {
    row.set_layout_hint(LayoutHint(golden, target, ranks_));
    Decide(v1::FAIL, ShapeDifference(target, golden, row.layout_hint()), row);
  } else if (IsComplex(target.dtype) != IsComplex(golden.dtype)) {
    Decide(v1::SKIPPED,
           fmt::format("{} against {}: complex against real is not compared",
                       DTypeName(target.dtype), DTypeName(golden.dtype)),
           row);
  } else if (HashesAgree(target, golden)) {
    PassEqual(pair, row, metrics);
  } else if (golden.tensor_bytes == 0 && target.tensor_bytes == 0) {
    Decide(v1::PASS, "no elements", row);
  } else {
    if (HasHash(golden) && HasHash(target) &&
        VerificationOf(pair).hash_decides) {
      Decide(v1::FAIL, "the hashes differ; the bytes are not kept", row);
      return;
    }
    Decide(v1::SKIPPED,
           fmt::format("the bytes of the {} tensor are not kept, and "
                       "the hashes do not decide{}",
                       SideWithoutBytes(pair),
                       HasBytesOrSamples(golden) && HasBytesOrSamples(target)
                           ? WhySamplesDoNotDecide(pair)
                           : ""),
           row);
  }
}

void ComparisonEngine::JudgeAlone(const LogicalTensor& tensor, bool is_golden,
                                  v1::ComparisonRow& row) const {
  std::string reason = fmt::format(
      "only in run {}", is_golden ? plan_.golden_run : plan_.target_run);
  v1::ComparisonRow problem;
  if (!IsWhole(tensor, is_golden ? "golden" : "target", problem)) {
    Decide(v1::UNMATCHED, reason + "; " + problem.reason(), row);
    return;
  }
  const UnmatchedRules& rules = plan_.policy.unmatched_rules();
  const TensorKey& key = tensor.key;
  const std::string* rule = rules.Find(key.op, key.io, key.index);
  // An op of the target run goes by its golden name as well.
  if (rule == nullptr && !is_golden && plan_.matching.renames()) {
    rule = rules.Find(plan_.matching.GoldenOpOf(key.op), key.io, key.index);
  }
  if (rule != nullptr) reason += fmt::format("; allowed by \"{}\"", *rule);
  Decide(rule != nullptr ? v1::SKIPPED : v1::UNMATCHED, std::move(reason), row);
}

Verification ComparisonEngine::VerificationOf(const TensorPair& pair) const {
  Verification out = plan_.policy.VerificationFor(
      pair.golden->key.op, pair.target->dtype, pair.golden->dtype);
  const std::vector<int64_t>& shape = pair.golden->shape;
  out.request.row_elements = shape.empty() ? 1 : shape.back();
  return out;
}

Verification ComparisonEngine::MeasuredVerificationOf(
    const TensorPair& pair) const {
  Verification out = VerificationOf(pair);
  if (!IsSampled(pair)) return out;
  // Most rows of the tensor are not whole any more.
  const uint64_t count = ElementCount(pair.golden->shape);
  if (SampleStep(count) != 1) out.request.row_elements = SampleCount(count);
  return out;
}

void ComparisonEngine::PassEqual(const TensorPair& pair, v1::ComparisonRow& row,
                                 RowMetrics& metrics) const {
  // Equal bytes pass whatever the predicate asks: it may name a metric that
  // such a pair does not have, as the cosine of zeros.
  row.set_bitwise_equal(true);
  const Summary& summary = pair.golden->summary;
  metrics = ToRowMetrics(
      compute::MetricsOfEqual(summary.count, summary.finite_count()), summary);
  AddElementMetrics(
      compute::ElementMetricsOfEqual(pair.golden->dtype, summary,
                                     VerificationOf(pair).request),
      metrics);
  Decide(v1::PASS, "", row);
}

absl::Status ComparisonEngine::Measure(const TensorPair& pair,
                                       v1::ComparisonRow& row,
                                       RowMetrics& metrics) {
  const bool is_sampled = IsSampled(pair);
  const Verification verification = MeasuredVerificationOf(pair);
  const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
  if (absl::IsCancelled(measurement.status())) return measurement.status();
  if (!measurement.ok()) {
    Decide(v1::SKIPPED, std::string(Message(measurement.status())), row);
    return absl::OkStatus();
  }
  row.set_sampled(is_sampled);
  // A row has the summary of the whole tensor, which the index knows.
  if (measurement->target_summary && !is_sampled) {
    AddSummary(*measurement->target_summary, *row.mutable_target());
  }
  if (measurement->golden_summary && !is_sampled) {
    AddSummary(*measurement->golden_summary, *row.mutable_golden());
  }
  metrics =
      ToRowMetrics(measurement->metrics,
                   measurement->golden_summary.value_or(pair.golden->summary));
  AddElementMetrics(measurement->elements, metrics);
  required_tolerances_.Add(verification, metrics, row_count_);
  const predicate::Predicate& predicate = *verification.predicate;
  row.set_predicate(predicate.text());
  const bool has_tolerance =
      (verification.request.sets & compute::kToleranceSet) != 0;
  if (has_tolerance) {
    row.set_rtol(verification.request.rtol);
    row.set_atol(verification.request.atol);
  }
  if (predicate.Holds(metrics)) {
    Decide(v1::PASS, is_sampled ? SampleText(*pair.golden) : "", row);
    return absl::OkStatus();
  }
  std::string reason = predicate.FirstFailure(metrics);
  if (has_tolerance) {
    reason += ToleranceNeeded(verification.request, measurement->elements);
  }
  const std::string where = LargestDifference(
      measurement->metrics, *pair.golden,
      is_sampled ? SampleStep(ElementCount(pair.golden->shape)) : 1);
  if (!where.empty()) reason += "; " + where;
  if (is_sampled) reason += "; " + SampleText(*pair.golden);
  difference_ =
      fmt::format("{:.0f} against {:.0f}", measurement->metrics.max_abs_target,
                  measurement->metrics.max_abs_golden);
  Decide(v1::FAIL, std::move(reason), row);
  return absl::OkStatus();
}

absl::StatusOr<PairMeasurement> ComparisonEngine::ReadMetrics(
    const TensorPair& pair, const PartsAhead& ahead, PairReader& reader,
    WorkObserver& reads) const {
  const compute::ElementRequest request = MeasuredVerificationOf(pair).request;
  if (ahead.batch != nullptr && !IsSampled(pair)) {
    return MeasureAhead(pair, ahead, request, reader, reads);
  }
  MSITD_ASSIGN_OR_RETURN(
      TensorSource target,
      StoredSource(*pair.target, plan_.target_run, "target", store_));
  MSITD_ASSIGN_OR_RETURN(
      TensorSource golden,
      StoredSource(*pair.golden, plan_.golden_run, "golden", store_));
  target.is_sampled = golden.is_sampled = IsSampled(pair);
  return reader.Measure(target, golden, request, reads);
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

absl::Status ComparisonEngine::EmitRow(const RowMetrics& metrics,
                                       const TensorGroup* group,
                                       v1::ComparisonRow& row) {
  row.set_row(row_count_++);
  if (metrics != last_metrics_) {
    last_metrics_ = metrics;
    last_metrics_bytes_ = EncodeMetrics(metrics, metrics_row_);
  }
  // The parts of a message may be put together in any order.
  const size_t metrics_bytes = last_metrics_bytes_.size();
  const size_t row_bytes = row.ByteSizeLong();
  std::string bytes;
  bytes.reserve(metrics_bytes + row_bytes);
  bytes += last_metrics_bytes_;
  bytes.resize(metrics_bytes + row_bytes);
  row.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(bytes.data() + metrics_bytes));
  findings_.AddRow(row, bytes);
  if (group != nullptr && row.verdict() == v1::FAIL) {
    FindMaker(*group, row, bytes);
  }
  if (findings_.changed()) observer_.OnFindings(findings_);
  return observer_.OnRow(row, std::move(bytes));
}

}  // namespace msitd::compare
