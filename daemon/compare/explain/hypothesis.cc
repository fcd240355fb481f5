// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/hypothesis.h"

#include <fmt/format.h>

#include <utility>

#include "daemon/compare/explain/explain.h"

namespace msitd::compare::explain {
namespace {

// A fit needs this many elements for each of its parameters, and some more.
constexpr size_t kElementsPerParameter = 2;
constexpr size_t kFreeElementsMin = 8;
// Roundings of a correct op, in units of the type: the results of types with
// few digits are sums that are rounded once, others are rounded in each term.
constexpr double kNarrowRoundings = 0.5;
constexpr double kWideRoundings = 8;
constexpr int kNarrowDigitsMax = 11;
// The number of elements that a hypothesis is tested on first, in larger
// tensors than the other number.
constexpr size_t kSampleSize = 512;
constexpr size_t kSampledMin = 4096;

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

bool IsConstant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&values](double x) {
    return x == values.front() || std::isnan(x);
  });
}

Examination::Examination(const ExaminedOp& op) : op_(op) {
  double squares = 0;
  double target_squares = 0;
  double difference = 0;
  for (size_t i = 0; i < size(); ++i) {
    const double g = golden()[i];
    const double t = target()[i];
    is_finite_ = is_finite_ && std::isfinite(g) && std::isfinite(t);
    if (std::isfinite(g)) squares += g * g;
    if (std::isfinite(t)) target_squares += t * t;
    if (g != t && !(std::isnan(g) && std::isnan(t))) {
      difference += (g - t) * (g - t);
    }
  }
  golden_norm_ = std::sqrt(squares);
  target_norm_ = std::sqrt(target_squares);
  without_ =
      std::isnan(difference) ? kInfinite : std::sqrt(difference) / golden_norm_;
  limit_ = kResidualNoisesMax * noise();
  if (size() > kSampledMin) {
    // An odd step meets all channels of the usual widths.
    const size_t step = size() / kSampleSize | 1;
    for (size_t i = step / 2; i < size(); i += step) sample_.push_back(i);
  }
}

double Examination::ResidualOfSquares(double squares, Scale scale) const {
  if (std::isnan(squares)) return kInfinite;
  const double error = std::sqrt(squares);
  // Nothing predicts a target as well as zeros do.
  if (error * kImprovementMin > target_norm_) return kInfinite;
  return error / (scale == Scale::kTarget
                      ? target_norm_
                      : std::max(target_norm_, golden_norm_));
}

bool Examination::Holds(double residual, std::optional<double> without) const {
  const double before = without.value_or(without_);
  return before > 0 && residual <= limit_ &&
         residual * kImprovementMin <= before;
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
