// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/stated_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "protos/base/tensor_statistics.h"

namespace msitd::origin {
namespace {

using Number = std::optional<double>;
using storage::TensorInfo;

// Doubles are exact up to this number.
constexpr double kCountMax = 9007199254740992.0;

// The statistics of a tensor as stated.
struct Stated {
  Number count;
  Number nan_count;
  Number positive_infinity_count;
  Number negative_infinity_count;
  Number zero_count;
  Number min;
  Number max;
  Number sum;
  Number mean;
  Number l1_norm;
  Number l2_norm;
  // True if a count is not a number of elements, or the counts exceed their
  // total.
  bool is_contradictory = false;

  bool states_counts() const {
    return nan_count.has_value() && positive_infinity_count.has_value() &&
           negative_infinity_count.has_value();
  }
  double bad_count() const {
    return nan_count.value_or(0) + positive_infinity_count.value_or(0) +
           negative_infinity_count.value_or(0);
  }
};

constexpr std::pair<std::string_view, Number Stated::*> kCounts[] = {
    {"count", &Stated::count},
    {"nan_count", &Stated::nan_count},
    {"pos_inf_count", &Stated::positive_infinity_count},
    {"neg_inf_count", &Stated::negative_infinity_count},
    {"zero_count", &Stated::zero_count},
};
constexpr std::pair<std::string_view, Number Stated::*> kValues[] = {
    {"min", &Stated::min},         {"max", &Stated::max},
    {"sum", &Stated::sum},         {"mean", &Stated::mean},
    {"l1_norm", &Stated::l1_norm}, {"l2_norm", &Stated::l2_norm},
};

bool IsCount(double number) {
  return number >= 0 && number <= kCountMax && number == std::floor(number);
}

bool IsFinite(const Number& number) {
  return number.has_value() && std::isfinite(*number);
}

bool IsNan(const Number& number) {
  return number.has_value() && std::isnan(*number);
}

bool Is(const Number& number, double value) {
  return number.has_value() && *number == value;
}

// Returns the number of elements that the shape states; nullopt if the shape is
// not possible.
Number ElementCount(const TensorInfo& tensor) {
  double count = IsComplex(tensor.dtype) ? 2 : 1;
  for (const int64_t dim : tensor.shape) count *= static_cast<double>(dim);
  return IsCount(count) ? Number(count) : std::nullopt;
}

std::optional<Stated> Read(const TensorInfo& tensor) {
  const auto statistics = ParseTensorStatistics(tensor.value);
  if (!statistics.has_value()) return std::nullopt;
  Stated out;
  for (const TensorStatistic& statistic : *statistics) {
    const Number number = NumberOf(statistic);
    for (const auto& [name, field] : kCounts) {
      if (statistic.name != name) continue;
      if (number.has_value() && IsCount(*number)) {
        out.*field = number;
      } else {
        out.is_contradictory = true;
      }
    }
    for (const auto& [name, field] : kValues) {
      if (statistic.name == name) out.*field = number;
    }
  }
  if (!out.count.has_value()) out.count = ElementCount(tensor);
  out.is_contradictory =
      out.is_contradictory ||
      (out.count.has_value() &&
       std::max(out.bad_count(), out.zero_count.value_or(0)) > *out.count);
  return out;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The kinds of elements that statistics prove.
struct Evidence {
  bool has_nan = false;
  bool has_positive_infinity = false;
  bool has_negative_infinity = false;
  // True if there are no others of these kinds. If there is no evidence, all
  // elements are finite.
  bool is_complete = false;
};

Evidence EvidenceOf(const Stated& stated) {
  Evidence out;
  if (Is(stated.count, 0) && stated.bad_count() == 0) {
    out.is_complete = true;
    return out;
  }
  out.has_nan = stated.nan_count.value_or(0) > 0 || IsNan(stated.max) ||
                IsNan(stated.min) || IsNan(stated.mean) ||
                IsNan(stated.l2_norm);
  out.has_positive_infinity = stated.positive_infinity_count.value_or(0) > 0 ||
                              Is(stated.max, kInfinity) ||
                              Is(stated.min, kInfinity);
  out.has_negative_infinity = stated.negative_infinity_count.value_or(0) > 0 ||
                              Is(stated.min, -kInfinity) ||
                              Is(stated.max, -kInfinity);
  if (stated.is_contradictory) return out;
  // NaN and +Inf would show in the largest element.
  const bool has_only_minus =
      out.has_negative_infinity && stated.max.has_value();
  out.is_complete = stated.states_counts() || has_only_minus ||
                    IsFinite(stated.l2_norm) || IsFinite(stated.mean) ||
                    (IsFinite(stated.max) && IsFinite(stated.min));
  return out;
}

uint64_t CountOf(const Number& stated, bool has_any) {
  return std::max<uint64_t>(static_cast<uint64_t>(stated.value_or(0)),
                            has_any ? 1 : 0);
}

}  // namespace

std::optional<StatedSummary> StatedSummaryOf(const TensorInfo& tensor) {
  const std::optional<Stated> stated = Read(tensor);
  if (!stated.has_value()) return std::nullopt;
  const Evidence evidence = EvidenceOf(*stated);
  const bool is_symptom = evidence.has_nan || evidence.has_positive_infinity;
  if (!evidence.is_complete && !is_symptom) return std::nullopt;
  StatedSummary out;
  Summary& summary = out.summary;
  summary.nan_count = CountOf(stated->nan_count, evidence.has_nan);
  summary.positive_infinity_count =
      CountOf(stated->positive_infinity_count, evidence.has_positive_infinity);
  summary.negative_infinity_count =
      CountOf(stated->negative_infinity_count, evidence.has_negative_infinity);
  const uint64_t bad = summary.nan_count + summary.positive_infinity_count +
                       summary.negative_infinity_count;
  summary.count = std::max(CountOf(stated->count, false), bad);
  out.has_counts = stated->states_counts() && stated->count.has_value() &&
                   !stated->is_contradictory;
  if (stated->min.has_value() && !IsNan(stated->min)) {
    summary.min = *stated->min;
  }
  if (stated->max.has_value() && !IsNan(stated->max)) {
    summary.max = *stated->max;
  }
  if (IsFinite(stated->mean)) {
    summary.sum = *stated->mean * static_cast<double>(summary.finite_count());
  }
  if (IsFinite(stated->l2_norm)) {
    summary.sum_squares = *stated->l2_norm * *stated->l2_norm;
  }
  return out;
}

StatedValues StatedValuesOf(const TensorInfo& tensor) {
  StatedValues out;
  const std::optional<Stated> stated = Read(tensor);
  if (!stated.has_value()) return out;
  const Evidence evidence = EvidenceOf(*stated);
  const auto finite = [](const Number& number) {
    return IsFinite(number) ? number : std::nullopt;
  };
  const bool has_any = evidence.has_nan || evidence.has_positive_infinity ||
                       evidence.has_negative_infinity;
  const Number if_finite =
      evidence.is_complete && !has_any ? Number(0) : std::nullopt;
  if (!stated->is_contradictory) {
    out.is_empty = Is(stated->count, 0);
    out.count = stated->count;
    out.zero_count = stated->zero_count;
    out.nan_count =
        stated->nan_count.has_value() ? stated->nan_count : if_finite;
    out.infinity_count = if_finite;
    if (stated->positive_infinity_count.has_value() &&
        stated->negative_infinity_count.has_value()) {
      out.infinity_count =
          *stated->positive_infinity_count + *stated->negative_infinity_count;
    }
  }
  if (!IsNan(stated->min)) out.min = stated->min;
  if (!IsNan(stated->max)) out.max = stated->max;
  out.mean = finite(stated->mean);
  out.l1_norm = finite(stated->l1_norm);
  out.l2_norm = finite(stated->l2_norm);
  out.sum = finite(stated->sum);
  if (!out.sum.has_value() && out.mean.has_value() && out.count.has_value() &&
      out.nan_count.has_value() && out.infinity_count.has_value()) {
    out.sum = *out.mean * (*out.count - *out.nan_count - *out.infinity_count);
  }
  return out;
}

}  // namespace msitd::origin
