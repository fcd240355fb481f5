// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/tensor_condition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "daemon/origin/stated_summary.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// The names that a condition may use, in the order of tensor_service.proto and
// of ValuesOf.
constexpr std::array<std::string_view, 12> kNames = {
    "count",   "nan_count", "inf_count", "zero_count", "min",     "max",
    "abs_max", "sum",       "mean",      "l1_norm",    "l2_norm", "size_bytes"};

using Values = std::array<std::optional<double>, kNames.size()>;

Values ValuesOf(const storage::TensorInfo& tensor) {
  const Summary& s = tensor.summary;
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  const auto if_any = [](bool any, double value) {
    return any ? std::optional<double>(value) : std::nullopt;
  };
  const bool extremes = s.has_extremes();
  return {number(s.count),
          number(s.nan_count),
          number(s.positive_infinity_count + s.negative_infinity_count),
          number(s.zero_count),
          if_any(extremes, s.min),
          if_any(extremes, s.max),
          if_any(extremes, s.abs_max()),
          s.sum,
          if_any(s.finite_count() > 0 && std::isfinite(s.mean()), s.mean()),
          s.l1,
          s.l2_norm(),
          number(tensor.tensor_bytes)};
}

// Returns the values that statistics state. A value that is not stated is NaN
// rather than absent, because `if present` does not apply to it.
Values StatedValues(const storage::TensorInfo& tensor) {
  const origin::StatedValues s = origin::StatedValuesOf(tensor);
  if (s.is_empty) return ValuesOf(tensor);
  const auto known = [](const std::optional<double>& value) {
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
  };
  const auto abs_max = s.min.has_value() && s.max.has_value()
                           ? std::optional<double>(
                                 std::max(std::fabs(*s.min), std::fabs(*s.max)))
                           : std::nullopt;
  double bytes = ElementBytes(tensor.dtype);
  for (const int64_t dim : tensor.shape) bytes *= static_cast<double>(dim);
  return {known(s.count),      known(s.nan_count), known(s.infinity_count),
          known(s.zero_count), known(s.min),       known(s.max),
          known(abs_max),      known(s.sum),       known(s.mean),
          known(s.l1_norm),    known(s.l2_norm),   bytes};
}

}  // namespace

absl::StatusOr<TensorCondition> TensorCondition::Parse(std::string_view text) {
  TensorCondition out;
  if (text.empty()) return out;
  MSITD_ASSIGN_OR_RETURN(out.predicate_,
                         predicate::Predicate::Parse(text, kNames));
  return out;
}

std::optional<bool> TensorCondition::Evaluate(
    const storage::TensorInfo& tensor) const {
  if (!predicate_.has_value()) return true;
  if (tensor.kind != RecordKind::kStatistics) return Holds(tensor);
  return predicate_->Evaluate(StatedValues(tensor));
}

bool TensorCondition::Holds(const storage::TensorInfo& tensor) const {
  return !predicate_.has_value() || predicate_->Holds(ValuesOf(tensor));
}

}  // namespace msitd::service
