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
#include "protos/base/shape.h"

// Explains errors of linear ops whose weights were not recorded.
namespace msitd::compare {
namespace {

// Maximum number of ops whose slopes are kept for later tokens, and of all
// slopes together.
constexpr size_t kSlopedOpsMax = 4096;
constexpr size_t kAllSlopesMax = size_t{1} << 20;

// Tensors of several ranks are not read.
bool IsReadable(const LogicalTensor& tensor) {
  return tensor.has_bytes && tensor.assembly == nullptr;
}

uint64_t RowCountOf(const TensorPair& pair) {
  return ElementCount(pair.golden->shape) /
         static_cast<uint64_t>(pair.golden->shape.back());
}

}  // namespace

std::optional<std::string> ComparisonEngine::ExplainByRowSums(
    const TensorGroup& group, const PairPlan& plan, const RowMetrics& metrics) {
  const std::optional<size_t> input = conditioning_.InputOfNext();
  if (!input.has_value() || row_sum_budget_.pairs == 0) return std::nullopt;
  const TensorPair& from = group.pairs[*input];
  const TensorPair& pair = group.pairs[row_numbers_.size()];
  for (const TensorPair* const of : {&from, &pair}) {
    if (!IsReadable(*of->golden) || !IsReadable(*of->target)) {
      return std::nullopt;
    }
  }
  if (!HasRowsOf(from, pair)) return std::nullopt;
  const TensorKey& key = pair.golden->key;
  const std::tuple name(group.rank, key.op, key.call, key.index);
  const auto known = slopes_.find(name);
  std::vector<double> slopes;
  if (known != slopes_.end()) {
    slopes = known->second;
  } else if (RowCountOf(pair) < kFittedRowsMin) {
    return std::nullopt;
  }
  --row_sum_budget_.pairs;
  const absl::StatusOr<RowMetrics> rest =
      ReadWithoutRowSums(from, pair, metrics, {*golden_, *target_},
                         row_sum_budget_, slopes, observer_);
  // The next check of the observer ends a comparison that was cancelled.
  if (!rest.ok()) return std::nullopt;
  if (known == slopes_.end() && slopes_.size() < kSlopedOpsMax &&
      slope_count_ + slopes.size() <= kAllSlopesMax) {
    slope_count_ += slopes.size();
    slopes_.emplace(name, std::move(slopes));
  }
  // The remaining error may be one that the input has passed on.
  const predicate::Predicate& bounds = *plan.verification.predicate;
  const DType computed_in = plan.basis.basis.computed_in;
  if (!bounds.Holds(*rest) &&
      !conditioning_.Explain(*rest, bounds, computed_in).has_value()) {
    return std::nullopt;
  }
  return conditioning_.ExplainBySums(metrics, *rest);
}

}  // namespace msitd::compare
