// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msitd::compare {
namespace {

// Returns the ratio of two norms, given their squares.
double RatioOf(double error, double golden) {
  if (error == 0) return 0;
  return golden > 0 ? std::sqrt(error / golden)
                    : std::numeric_limits<double>::infinity();
}

}  // namespace

double RoundedTo(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)),
                    exponent - digits);
}

void RowSumFit::Add(double sum_error, std::span<const double> golden,
                    std::span<const double> target) {
  ++row_count_;
  if (sum_error == 0) return;
  ++sum_count_;
  squares_ += sum_error * sum_error;
  for (size_t k = 0; k < products_.size(); ++k) {
    products_[k] += sum_error * (target[k] - golden[k]);
  }
}

std::vector<double> RowSumFit::Slopes() const {
  if (row_count_ < kFittedRowsMin || sum_count_ < kFittedSumsMin) return {};
  std::vector<double> out = products_;
  for (double& slope : out) slope /= squares_;
  return out;
}

void RowSumRemainder::Add(double sum_error, std::span<const double> golden,
                          std::span<const double> target) {
  Squares& row = rows_.emplace_back();
  for (size_t k = 0; k < slopes_.size(); ++k) {
    const double error = target[k] - golden[k] - slopes_[k] * sum_error;
    row.error += error * error;
    row.golden += golden[k] * golden[k];
    channels_[k].error += error * error;
    channels_[k].golden += golden[k] * golden[k];
    // NaN counts as the largest error.
    if (!(std::fabs(error) <= largest_error_))
      largest_error_ = std::fabs(error);
    largest_golden_ = std::max(largest_golden_, std::fabs(golden[k]));
  }
}

double RowSumRemainder::Nl2() const {
  Squares all;
  for (const Squares& row : rows_) {
    all.error += row.error;
    all.golden += row.golden;
  }
  return RatioOf(all.error, all.golden);
}

double RowSumRemainder::ScaledMaxAbs() const {
  return largest_error_ / largest_golden_;
}

double RowSumRemainder::MedianOf(std::vector<Squares> squares) {
  if (squares.empty()) return 0;
  std::vector<double> ratios;
  ratios.reserve(squares.size());
  for (const Squares& of : squares) {
    ratios.push_back(RatioOf(of.error, of.golden));
  }
  const auto middle =
      ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

double RowSumRemainder::RowNl2P50() const { return MedianOf(rows_); }

double RowSumRemainder::ChannelNl2P50() const { return MedianOf(channels_); }

}  // namespace msitd::compare
