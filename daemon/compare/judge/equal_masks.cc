// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/equal_masks.h"

#include <cmath>
#include <optional>

#include "daemon/compare/judge/closing_value.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

// A tensor with two values, one of which is 0.
struct MaskSide {
  bool is_bool = false;
  uint64_t count = 0;
  uint64_t zero_count = 0;
  double other = 0;  // The closing value of an additive mask.
};

// Returns nullopt if the tensor is not a mask by its summary.
std::optional<MaskSide> MaskSideOf(const LogicalTensor& tensor) {
  const Summary& summary = tensor.summary;
  const bool is_of_op =
      tensor.key.io == Io::kInput || tensor.key.io == Io::kOutput;
  if (!is_of_op || tensor.kind != RecordKind::kTensor ||
      !tensor.knows_summary || summary.nan_count > 0 ||
      summary.positive_infinity_count > 0 || summary.count == 0) {
    return std::nullopt;
  }
  MaskSide out = {tensor.dtype == DType::kBool, summary.count,
                  summary.zero_count, summary.min};
  if (out.is_bool) return out;
  const uint64_t closed = summary.count - summary.zero_count;
  if (!IsFloatingPoint(tensor.dtype) || summary.max != 0 ||
      !IsClosing(summary.min) || closed > kClosedPlacesMax) {
    return std::nullopt;
  }
  // No magnitude is larger than that of the minimum. All closed positions have
  // the minimum if their magnitudes add up to their number times it.
  if (summary.negative_infinity_count > 0) {
    return summary.negative_infinity_count == closed ? std::optional(out)
                                                     : std::nullopt;
  }
  const double all = static_cast<double>(closed) * std::fabs(summary.min);
  return std::fabs(summary.l1 - all) <= 0.25 * std::fabs(summary.min)
             ? std::optional(out)
             : std::nullopt;
}

}  // namespace

bool MayBeEqualMasks(const TensorPair& pair) {
  if (pair.golden == nullptr || pair.target == nullptr) return false;
  const std::optional<MaskSide> golden = MaskSideOf(*pair.golden);
  if (!golden.has_value()) return false;
  const std::optional<MaskSide> target = MaskSideOf(*pair.target);
  if (!target.has_value() || golden->count != target->count) return false;
  if (golden->is_bool && target->is_bool) return false;
  if (!golden->is_bool && !target->is_bool) {
    return golden->zero_count == target->zero_count &&
           golden->other != target->other;
  }
  return golden->zero_count == target->zero_count ||
         golden->zero_count + target->zero_count == golden->count;
}

bool AreEqualMasks(const TensorPair& pair, uint64_t mismatch_count) {
  if (!MayBeEqualMasks(pair)) return false;
  const uint64_t count = pair.golden->summary.count;
  const uint64_t golden = pair.golden->summary.zero_count;
  const uint64_t target = pair.target->summary.zero_count;
  // Two values of which at least one is not 0 always differ. If both sides are
  // 0 at the same positions, all other positions differ. If one side is 0
  // exactly where the other is not, all positions differ.
  return (golden == target && mismatch_count == count - golden) ||
         (golden + target == count && mismatch_count == count);
}

}  // namespace msitd::compare
