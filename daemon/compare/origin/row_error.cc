// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/row_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace msitd::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double ValueOf(const RowMetrics& metrics, compute::Metric metric) {
  return metrics[static_cast<size_t>(metric)].value_or(0);
}

// Returns whether the elements of a type are right or wrong, as positions,
// choices and masks are. Integers of 8 bits are quantized numbers.
bool IsDiscrete(v1::DType type) {
  switch (type) {
    case v1::D_TYPE_BOOL:
    case v1::D_TYPE_INT16:
    case v1::D_TYPE_INT32:
    case v1::D_TYPE_INT64:
    case v1::D_TYPE_UINT16:
    case v1::D_TYPE_UINT32:
    case v1::D_TYPE_UINT64:
      return true;
    default:
      return false;
  }
}

bool IsComplexBesideReal(const v1::ComparisonRow& row) {
  const auto is_complex = [](const v1::ComparedTensor& tensor) {
    return IsComplex(static_cast<DType>(tensor.dtype()));
  };
  return row.has_golden() && row.has_target() &&
         is_complex(row.golden()) != is_complex(row.target());
}

}  // namespace

std::optional<double> MeasuredError(const RowMetrics& metrics) {
  const std::optional<double> nl2 =
      metrics[static_cast<size_t>(compute::Metric::kNl2)];
  if (!nl2.has_value()) return std::nullopt;
  const double median =
      std::max(ValueOf(metrics, compute::Metric::kRowNl2P50),
               ValueOf(metrics, compute::Metric::kChannelNl2P50));
  const bool is_hidden = std::isfinite(median) && median > kHiddenMin * *nl2;
  return is_hidden ? median : *nl2;
}

bool FailsByShape(const v1::ComparisonRow& row) {
  return row.verdict() == v1::FAIL &&
         !std::equal(row.golden().shape().begin(), row.golden().shape().end(),
                     row.target().shape().begin(), row.target().shape().end());
}

double ErrorOf(const v1::ComparisonRow& row, const RowMetrics& metrics,
               bool shapes_count) {
  if (IsComplexBesideReal(row)) return kInfinity;
  const bool fails = row.verdict() == v1::FAIL;
  if (!fails && row.verdict() != v1::PASS) return kUnknown;
  // A tensor whose copies differ fails without a counterpart.
  if (!row.has_golden() || !row.has_target()) return kUnknown;
  // A layout that does not fit is not an error of the run.
  if (fails && !row.layout_hint().empty()) return kUnknown;
  const std::optional<double> error = MeasuredError(metrics);
  const std::optional<double> mismatches =
      metrics[static_cast<size_t>(compute::Metric::kMismatchCount)];
  const bool is_all_wrong =
      ValueOf(metrics, compute::Metric::kNanMismatchCount) > 0 ||
      ValueOf(metrics, compute::Metric::kInfMismatchCount) > 0 ||
      IsDiscrete(row.golden().dtype());
  // The metrics of a tensor that was not read are lower bounds at best.
  if (row.unread()) return is_all_wrong ? kInfinity : kUnknown;
  // If the policy allows the shapes to differ, the pair was measured.
  if (!mismatches.has_value()) {
    if (!fails) return 0;
    // Shards that do not form a tensor have no summary.
    const bool is_tensor =
        row.golden().has_nan_count() && row.target().has_nan_count();
    if (!is_tensor) return kUnknown;
    if (!FailsByShape(row)) return 1;
    return shapes_count ? kInfinity : kUnknown;
  }
  if (*mismatches == 0) return fails && !row.bitwise_equal() ? 1 : 0;
  if (is_all_wrong) return kInfinity;
  if (error.has_value() && std::isfinite(*error)) return *error;
  // If the golden tensor is zero, the relative error of any difference is
  // infinite.
  return fails ? kInfinity : 0;
}

double RoundingErrorOf(v1::DType type) {
  const auto dtype = static_cast<DType>(type);
  // Integers of 8 bits are quantized values.
  const bool is_quantised = dtype == DType::kInt8 || dtype == DType::kUint8;
  const int digits = is_quantised ? 4 : InfoOf(dtype).digits;
  if (digits == 0) return 0;
  // The unit roundoff, times a factor for the few roundings of an op. The
  // factor is larger for wide types: ops sum many products in them, and round
  // only the sum to a narrow type.
  return std::ldexp(1, -digits + (digits >= 24 ? 5 : 2));
}

}  // namespace msitd::compare
