// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/row_sum_reader.h"
#include "daemon/compare/judge/row_sums.h"
#include "daemon/compare/origin/pair_facts.h"
#include "daemon/compare/view/any_order.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

// Explains errors of linear ops whose weights were not recorded.
namespace msitd::compare {
namespace {

// Maximum number of ops whose slopes are kept for later tokens, and of all
// slopes together.
constexpr size_t kSlopedOpsMax = 4096;
constexpr size_t kAllSlopesMax = size_t{1} << 20;

uint64_t RowCountOf(const TensorPair& pair) {
  return ElementCount(pair.golden->shape) /
         static_cast<uint64_t>(pair.golden->shape.back());
}

}  // namespace

absl::StatusOr<std::optional<std::string>> ComparisonEngine::ExplainByRowSums(
    const TensorGroup& group, const PairPlan& plan, const RowMetrics& metrics) {
  const std::optional<size_t> input = conditioning_.InputOfNext();
  // Without the closed positions of a mask, the metrics are those of the open
  // ones, and those of the remainder would not be comparable.
  if (!input.has_value() || row_sum_budget_.pairs == 0 ||
      plan.verification.request.closing.has_value()) {
    return std::nullopt;
  }
  const TensorPair& from = group.pairs[*input];
  const TensorPair& pair = group.pairs[row_numbers_.size()];
  for (const TensorPair* const of : {&from, &pair}) {
    if (!IsReadable(*of->golden) || !IsReadable(*of->target)) {
      return std::nullopt;
    }
  }
  if (!HasRowsOf(from, pair) || plan.any_order.has_value() ||
      IsInAnyOrder(*from.golden, *from.target)) {
    return std::nullopt;
  }
  const TensorKey& key = pair.golden->key;
  const std::tuple name(group.rank, key.op, key.call, key.index);
  const auto known = slopes_.find(name);
  RowSlopes slopes;
  if (known != slopes_.end()) {
    slopes = known->second;
  } else if (RowCountOf(pair) < kFittedRowsMin) {
    return std::nullopt;
  }
  --row_sum_budget_.pairs;
  const DType computed_in = plan.basis.basis.computed_in;
  const double rounding =
      kInputRoundingsMax *
      RoundoffOf(CoarsestOf(from, CoarsestOf(pair, computed_in)));
  const absl::StatusOr<ErrorBesideSums> rest =
      ReadWithoutRowSums(from, pair, metrics, rounding, {*golden_, *target_},
                         row_sum_budget_, slopes, observer_);
  if (absl::IsCancelled(rest.status()) ||
      HasReason(rest.status(), ErrorReason::kSourceFailed)) {
    return rest.status();
  }
  if (!rest.ok()) return std::nullopt;
  // The remaining error may be one that the input has passed on.
  const predicate::Predicate& bounds = *plan.verification.predicate;
  if (!bounds.Holds(rest->metrics) &&
      !conditioning_.Explain(rest->metrics, bounds, computed_in, rest->shape)
           .has_value()) {
    return std::nullopt;
  }
  std::optional<std::string> reason =
      conditioning_.ExplainBySums(metrics, rest->metrics);
  // Later tokens must not use slopes that were fitted to a fault.
  if (!reason.has_value()) return std::nullopt;
  if (known != slopes_.end()) {
    slope_count_ +=
        slopes.of_channels.size() - known->second.of_channels.size();
    known->second = std::move(slopes);
  } else if (slopes_.size() < kSlopedOpsMax &&
             slope_count_ + slopes.of_channels.size() <= kAllSlopesMax) {
    slope_count_ += slopes.of_channels.size();
    slopes_.emplace(name, std::move(slopes));
  }
  return reason;
}

}  // namespace msitd::compare
