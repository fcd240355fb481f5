// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/pair_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/closing_value.h"
#include "daemon/compare/judge/drift_bounds.h"
#include "daemon/compare/judge/equal_masks.h"
#include "daemon/compare/judge/precision.h"
#include "daemon/compare/judge/preset.h"
#include "daemon/compare/judge/summary_bounds.h"
#include "daemon/compare/shard/sample_places.h"
#include "daemon/compare/view/any_order.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compute/pair_metrics.h"
#include "daemon/predicate/predicate.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

using Way = PairPlan::Way;

std::vector<int64_t> Squeezed(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// True if bytes or a sample are stored for the tensor, or for each of its
// shards.
bool HasBytesOrSamples(const LogicalTensor& tensor) {
  if (IsRearranged(tensor)) return tensor.has_bytes;
  if (tensor.assembly != nullptr && tensor.assembly->lean.has_value()) {
    return tensor.has_bytes || tensor.assembly->lean->have_bytes_or_samples;
  }
  const std::span<const storage::TensorInfo> shards = ShardsOf(tensor);
  return tensor.has_bytes || std::all_of(shards.begin(), shards.end(),
                                         [](const storage::TensorInfo& shard) {
                                           return shard.has_bytes ||
                                                  shard.has_sample;
                                         });
}

// True if the stored data contains the sample of the tensor, all shards of
// which must be present.
bool HasSample(const LogicalTensor& tensor) {
  if (IsRearranged(tensor)) return tensor.has_bytes;
  if (tensor.has_bytes || tensor.assembly == nullptr) {
    return tensor.has_bytes || tensor.has_sample;
  }
  const std::optional<LeanShards>& lean = tensor.assembly->lean;
  if (lean.has_value()) return lean->has_sample;
  return HasJoinedSample(tensor.assembly->grid, tensor.assembly->shards);
}

// True for tensors, and for statistics, which represent tensors.
bool IsOfTensor(RecordKind kind) {
  return kind == RecordKind::kTensor || kind == RecordKind::kStatistics;
}

// True if two tensors with equal hashes have different summaries. Summaries of
// shards are not compared.
bool IsContradiction(const LogicalTensor& a, const LogicalTensor& b) {
  return (a.is_claimed || b.is_claimed) && HasHash(a) && HasHash(b) &&
         !HasEqualBits({a.summary, a.hash}, {b.summary, b.hash});
}

// Returns the way that does not depend on the policy; kBytes if there is none.
Way WayWithoutPolicy(const TensorPair& pair, ShapeRule shapes) {
  if (pair.golden == nullptr || pair.target == nullptr) return Way::kAlone;
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  if (!HasAllShards(target) || !HasAllShards(golden)) return Way::kShardsAmiss;
  if (!ViewProblem(target).empty() || !ViewProblem(golden).empty()) {
    return Way::kViewUnfit;
  }
  const bool are_of_tensors =
      IsOfTensor(golden.kind) && IsOfTensor(target.kind);
  if (!are_of_tensors &&
      (golden.kind != target.kind || IsTextOnly(golden.kind))) {
    return Way::kValues;
  }
  if (!ShapesAgree(target.shape, golden.shape, shapes)) return Way::kShapes;
  if (IsComplex(target.dtype) != IsComplex(golden.dtype)) return Way::kKinds;
  const bool is_in_any_order = IsInAnyOrder(golden, target);
  if (is_in_any_order && (golden.kind != RecordKind::kTensor ||
                          target.kind != RecordKind::kTensor)) {
    return Way::kOrderUnfit;
  }
  if (golden.kind != target.kind || IsTextOnly(golden.kind)) {
    return Way::kStatistics;
  }
  if (HashesAgree(target, golden)) {
    return IsContradiction(target, golden) ? Way::kContradiction
                                           : Way::kEqualHashes;
  }
  if (golden.tensor_bytes == 0 && target.tensor_bytes == 0) {
    return Way::kNoElements;
  }
  if (is_in_any_order && !AnyOrderProblem(golden, target).empty()) {
    return Way::kOrderUnfit;
  }
  return Way::kBytes;
}

PairForm FormOf(const TensorPair& pair) {
  if (!IsOfTensor(pair.golden->kind)) return PairForm::kValues;
  return ElementCount(pair.golden->shape) == 1 ? PairForm::kSingle
                                               : PairForm::kTensors;
}

// Returns the way for a pair with a side that has no bytes.
Way WayWithoutBytes(const TensorPair& pair, bool hash_decides) {
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  if (hash_decides) {
    return HasHash(golden) && HasHash(target) ? Way::kOtherHashes
                                              : Way::kSummaries;
  }
  return HasBytesOrSamples(golden) && HasBytesOrSamples(target) &&
                 HasSample(golden) && HasSample(target)
             ? Way::kSamples
             : Way::kSummaries;
}

std::string_view SideWithoutBytes(const TensorPair& pair) {
  if (pair.golden->has_bytes) return "target";
  return pair.target->has_bytes ? "golden" : "golden and target";
}

// Explains why samples do not decide the pair. Both sides must have bytes or
// samples of all their shards.
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

// Returns whether the summaries of a pair prove that it fails, even if its
// error has accumulated.
bool IsProven(const TensorPair& pair, const Verification& verification) {
  const std::optional<RowMetrics> least = ProveFailure(pair, verification);
  return least.has_value() &&
         (!verification.is_default ||
          verification.predicate->CannotHold(EasedByDrift(*least)));
}

// Returns the largest bound of nl2 in a predicate; 0 if it has none.
double Nl2BoundOf(const predicate::Predicate& predicate) {
  double out = 0;
  for (const predicate::Predicate::Bound& bound : predicate.Bounds()) {
    if (bound.name == static_cast<int>(compute::Metric::kNl2) &&
        !bound.at_least) {
      out = std::max(out, bound.number);
    }
  }
  return out;
}

// Returns the largest nl2 of a row that belongs to another one. A single row
// may differ by more than the bound of the whole tensor.
double RowToleranceOf(const TensorPair& pair, const Verification& verification,
                      const Basis& basis) {
  constexpr double kRowFactor = 4;
  constexpr double kMost = 0.5;
  double bound = Nl2BoundOf(*verification.predicate);
  if (bound == 0 && !verification.hash_decides) {
    bound = DefaultNl2Bound(pair, basis);
  }
  return std::min(kRowFactor * bound, kMost);
}

}  // namespace

bool ShapesAgree(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                 ShapeRule rule) {
  if (a == b) return true;
  if (rule == ShapeRule::kCount) return ElementCount(a) == ElementCount(b);
  return rule == ShapeRule::kSqueeze && Squeezed(a) == Squeezed(b);
}

PairPlan PairPlanner::Plan(const TensorPair& pair, const PairBasis& basis) {
  PairPlan out;
  out.basis = basis;
  out.way = WayWithoutPolicy(pair, policy_.shape_rule());
  if (out.way != Way::kEqualHashes && out.way != Way::kBytes) return out;
  const LogicalTensor& golden = *pair.golden;
  out.verification =
      policy_.VerificationFor(golden.key, PrecisionOf(*pair.target),
                              PrecisionOf(golden), basis.basis, FormOf(pair));
  compute::ElementRequest& request = out.verification.request;
  request.row_elements = golden.shape.empty() ? 1 : golden.shape.back();
  const uint64_t count = ElementCount(golden.shape);
  request.row_count =
      request.row_elements == 0 ? 1 : count / request.row_elements;
  request.is_batch_of_one = request.row_count == 1 && golden.shape.size() > 1;
  if (out.way == Way::kEqualHashes) return out;
  if (out.verification.is_default) request.closing = ClosingValuesOf(pair);
  if (IsInAnyOrder(golden, *pair.target)) {
    PlanInAnyOrder(pair, out);
    return out;
  }
  if (golden.has_bytes && pair.target->has_bytes) {
    out.way = WayWithBytes(pair, out.verification);
    out.is_unread = !out.is_measured();
  } else {
    out.way = WayWithoutBytes(pair, out.verification.hash_decides);
  }
  // The sample has only parts of most rows.
  if (out.is_sampled() && SampleStep(count) != 1) {
    request.row_elements = SampleCount(count);
    request.row_count = 0;
  }
  // Summaries are used to prove failures of samples, but do not show closed
  // places.
  if (out.is_sampled()) request.closing.reset();
  return out;
}

// Neither hashes nor samples decide such a pair, but summaries can prove that
// it fails.
void PairPlanner::PlanInAnyOrder(const TensorPair& pair, PairPlan& plan) const {
  const bool has_bytes = pair.golden->has_bytes && pair.target->has_bytes;
  const bool is_sampled = reading_ == Reading::kSamples &&
                          SampleStep(ElementCount(pair.golden->shape)) != 1;
  if (!has_bytes || is_sampled) {
    plan.way = Way::kSummaries;
    plan.is_unread = has_bytes;
    return;
  }
  plan.any_order =
      AnyOrder{*AnyOrderRows(*pair.golden, *pair.target),
               RowToleranceOf(pair, plan.verification, plan.basis.basis)};
}

Way PairPlanner::WayWithBytes(const TensorPair& pair,
                              const Verification& verification) {
  if (reading_ == Reading::kBytes) return Way::kBytes;
  const bool is_proven_by_hash = verification.hash_decides &&
                                 HasHash(*pair.golden) && HasHash(*pair.target);
  if (reading_ == Reading::kSamples) {
    if (is_proven_by_hash) return Way::kOtherHashes;
    const bool is_sampled = SampleStep(ElementCount(pair.golden->shape)) != 1;
    return is_sampled ? Way::kSamples : Way::kBytes;
  }
  const bool is_mask =
      verification.is_default &&
      (verification.request.closing.has_value() || MayBeEqualMasks(pair));
  if (is_mask || (!is_proven_by_hash && !IsProven(pair, verification))) {
    return Way::kBytes;
  }
  if (proven_count_ < kProvenReadMax) {
    ++proven_count_;
    return Way::kBytes;
  }
  return is_proven_by_hash ? Way::kOtherHashes : Way::kSummaries;
}

double DefaultNl2Bound(const TensorPair& pair, const Basis& basis) {
  return Nl2BoundOf(
      DefaultPredicate(pair.target->dtype, pair.golden->dtype, basis));
}

std::string WhyUndecided(const TensorPair& pair) {
  if (IsInAnyOrder(*pair.golden, *pair.target)) {
    return pair.golden->has_bytes && pair.target->has_bytes
               ? "rows in any order can be compared only if the bytes are read"
               : fmt::format(
                     "the bytes of the {} tensor are not kept, and rows "
                     "in any order can be compared only by them",
                     SideWithoutBytes(pair));
  }
  const bool has_some =
      HasBytesOrSamples(*pair.golden) && HasBytesOrSamples(*pair.target);
  return fmt::format(
      "the bytes of the {} tensor are not kept, and the hashes do not decide{}",
      SideWithoutBytes(pair), has_some ? WhySamplesDoNotDecide(pair) : "");
}

}  // namespace msitd::compare
