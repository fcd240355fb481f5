// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/hypothesis.h"

#include <fmt/format.h>

#include <utility>

#include "daemon/compare/explain/explain.h"

namespace msitd::compare::explain {
namespace {

// A fit needs this many elements for each of its parameters, and some more.
constexpr size_t kElementsPerParameter = 4;
constexpr size_t kFreeElementsMin = 8;
// Roundings of a correct op, in units of the type: the results of types with
// few digits are sums that are rounded once, others are rounded in each term.
constexpr double kNarrowRoundings = 0.5;
constexpr double kWideRoundings = 8;
constexpr int kNarrowDigitsMax = 11;

}  // namespace

double NoiseOf(double input_error, DType type) {
  const int digits = InfoOf(type).digits;
  if (digits == 0) return input_error;
  const double roundings =
      digits <= kNarrowDigitsMax ? kNarrowRoundings : kWideRoundings;
  return std::max(input_error, roundings * std::ldexp(1, -digits));
}

Slices SlicesOf(std::span<const int64_t> shape, size_t dim) {
  Slices out;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto size = static_cast<size_t>(shape[i]);
    (i < dim ? out.outer : i == dim ? out.count : out.inner) *= size;
  }
  return out;
}

Slices RowsOf(std::span<const int64_t> shape) {
  Slices out;
  for (size_t i = 0; i < shape.size(); ++i) {
    (i + 1 < shape.size() ? out.count : out.inner) *=
        static_cast<size_t>(shape[i]);
  }
  return out;
}

Examination::Examination(const ExaminedOp& op) : op_(op) {
  double squares = 0;
  double difference = 0;
  for (size_t i = 0; i < size(); ++i) {
    const double g = golden()[i];
    const double t = target()[i];
    is_finite_ = is_finite_ && std::isfinite(g) && std::isfinite(t);
    if (std::isfinite(g)) squares += g * g;
    if (g != t && !(std::isnan(g) && std::isnan(t))) {
      difference += (g - t) * (g - t);
    }
  }
  golden_norm_ = std::sqrt(squares);
  without_ =
      std::isnan(difference) ? kInfinite : std::sqrt(difference) / golden_norm_;
  limit_ = kResidualNoisesMax * noise();
}

bool Examination::Holds(double residual, std::optional<double> without) const {
  return residual <= limit_ &&
         residual * kImprovementMin <= without.value_or(without_);
}

void Examination::Offer(Fit fit) {
  if (fit.fitted > 0) {
    if (size() < kElementsPerParameter * fit.fitted ||
        size() - fit.fitted < kFreeElementsMin) {
      return;
    }
    const auto count = static_cast<double>(size());
    fit.residual *=
        std::sqrt(count / (count - static_cast<double>(fit.fitted)));
  }
  if (Holds(fit.residual, fit.without)) fits_.push_back(std::move(fit));
}

std::string IndicesText(const std::vector<size_t>& indices, size_t dim) {
  constexpr size_t kRangesMax = 8;
  std::string list;
  size_t ranges = 0;
  for (size_t i = 0; i < indices.size(); ++ranges) {
    if (ranges == kRangesMax) {
      list += fmt::format(" and {} more", indices.size() - i);
      break;
    }
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    list += list.empty() ? "" : ",";
    list += end - i == 1 ? fmt::format("{}", indices[i])
                         : fmt::format("{}-{}", indices[i], indices[end - 1]);
    i = end;
  }
  return fmt::format("{} {} of dimension {}",
                     indices.size() == 1 ? "index" : "indices", list, dim);
}

}  // namespace msitd::compare::explain
