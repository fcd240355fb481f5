// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/tensor_condition.h"

#include <array>
#include <cmath>
#include <utility>

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

}  // namespace

absl::StatusOr<TensorCondition> TensorCondition::Parse(std::string_view text) {
  TensorCondition out;
  if (text.empty()) return out;
  MSITD_ASSIGN_OR_RETURN(out.predicate_,
                         predicate::Predicate::Parse(text, kNames));
  return out;
}

bool TensorCondition::Holds(const storage::TensorInfo& tensor) const {
  return !predicate_.has_value() || predicate_->Holds(ValuesOf(tensor));
}

}  // namespace msitd::service
