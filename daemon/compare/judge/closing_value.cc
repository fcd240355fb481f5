// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/closing_value.h"

#include <cmath>
#include <limits>

#include "daemon/compute/open_pairs.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

// Returns the closing value from which `value` differs by at most `error` times
// that value; nullopt if there is none. `value` must be finite, and `error`
// less than a half.
std::optional<double> NearestClosing(double value, double error) {
  constexpr double kSmallest = 1e4;
  const double magnitude = -value;
  // Fast path: the elements of almost all tensors are smaller.
  if (magnitude < kSmallest / 2) return std::nullopt;
  const auto is_nearly = [&](double other) {
    return std::fabs(magnitude - other) <= other * error;
  };
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (magnitude == kLargest) return -kLargest;
  // 65504 is the largest float16. 2^128 is close to the largest float32 and
  // bfloat16.
  for (const double other : {65504.0, 0x1p128}) {
    if (is_nearly(other)) return -other;
  }
  for (double power = kSmallest; power < 1e39; power *= 10) {
    if (is_nearly(power)) return -power;
  }
  return std::nullopt;
}

// Returns the lowest value of a type. -2^128 stands for that of float32 and
// bfloat16.
double LeastOf(DType dtype) {
  if (dtype == DType::kFloat16) return -65504;
  return dtype == DType::kFloat64 ? std::numeric_limits<double>::lowest()
                                  : -0x1p128;
}

// Returns whether two closing values can have the same meaning. Programs use
// several common values. Any other value, such as -1e5, may be an ordinary
// number and must be the same on both sides.
bool AreAlike(double a, double b) {
  const auto is_usual = [](double value) {
    return value <= -0x1p127 || value == -1e4 || value == -65504 ||
           value == -1e9;
  };
  return a == b || (is_usual(a) && is_usual(b));
}

// Returns the closing value of a tensor that looks like scores to which a mask
// was added; nullopt for other tensors.
std::optional<double> ClosingValueOf(const LogicalTensor& tensor) {
  const Summary& summary = tensor.summary;
  const bool is_of_op =
      tensor.key.io == Io::kInput || tensor.key.io == Io::kOutput;
  if (!is_of_op || tensor.kind != RecordKind::kTensor ||
      !tensor.knows_summary || summary.nan_count > 0 ||
      summary.positive_infinity_count > 0 ||
      !compute::MayHaveClosedPlaces(tensor.dtype) || summary.count == 0) {
    return std::nullopt;
  }
  if (summary.negative_infinity_count > 0) return LeastOf(tensor.dtype);
  // Where two masks were added, the minimum is twice the closing value.
  for (const double share : {1.0, 0.5}) {
    const std::optional<double> found = NearestClosing(
        share * summary.min, compute::OpenPairAccumulator::kClosingError);
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

}  // namespace

bool IsClosing(double value) {
  if (std::isinf(value)) return value < 0;
  return NearestClosing(value, 0x1p-8).has_value();
}

std::optional<compute::ClosingValues> ClosingValuesOf(const TensorPair& pair) {
  if (pair.golden == nullptr || pair.target == nullptr) return std::nullopt;
  const std::optional<double> golden = ClosingValueOf(*pair.golden);
  if (!golden.has_value()) return std::nullopt;
  const std::optional<double> target = ClosingValueOf(*pair.target);
  if (!target.has_value()) return std::nullopt;
  if (!AreAlike(*target, *golden)) return std::nullopt;
  const TensorKey& key = pair.golden->key;
  const bool are_softmaxed =
      key.io == Io::kInput &&
      key.op.find("softmax", key.op.rfind('.') + 1) != std::string::npos;
  return compute::ClosingValues{*target, *golden, are_softmaxed};
}

}  // namespace msitd::compare
