// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace msitd::compare {
namespace {

// The sums may be this many times as large as their differences, divided by the
// error that these cause.
constexpr double kSumsPerError = 2;

double Square(double x) { return x * x; }

double SumOfSquares(const std::vector<double>& numbers) {
  double out = 0;
  for (const double x : numbers) out += Square(x);
  return out;
}

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

void RowSums::Add(std::span<const double> row) {
  double sum = 0;
  double magnitudes = 0;
  for (const double x : row) {
    sum += x;
    magnitudes += std::fabs(x);
    squares += x * x;
  }
  sums.push_back(sum);
  // False for NaN.
  do_cancel = do_cancel && std::fabs(sum) <= kCancelledMax * magnitudes;
}

bool MayBeRoundedSums(const RowSums& golden, const RowSums& target,
                      double rounding, double nl2) {
  if (!golden.do_cancel || !target.do_cancel ||
      golden.sums.size() != target.sums.size()) {
    return false;
  }
  double error = 0;
  for (size_t i = 0; i < golden.sums.size(); ++i) {
    error += Square(target.sums[i] - golden.sums[i]);
  }
  const double allowed = Square(rounding) * golden.squares;
  const double largest =
      std::max(SumOfSquares(golden.sums), SumOfSquares(target.sums));
  return error <= allowed &&
         Square(nl2) * largest <= Square(kSumsPerError) * error;
}

RowSumFit::RowSumFit(const std::vector<double>& sum_errors, size_t channels)
    : deviations_(sum_errors), products_(channels) {
  if (deviations_.size() < kFittedRowsMin) return;
  double sum = 0;
  for (const double error : sum_errors) sum += error;
  const double mean = sum / static_cast<double>(sum_errors.size());
  double fourth_powers = 0;
  for (double& deviation : deviations_) {
    deviation -= mean;
    squares_ += Square(deviation);
    fourth_powers += Square(Square(deviation));
  }
  const std::set<double> different(sum_errors.begin(), sum_errors.end());
  is_determined_ =
      different.size() >= kFittedRowsMin && squares_ > 0 &&
      Square(squares_) >= static_cast<double>(kFittedRowsMin) * fourth_powers;
}

void RowSumFit::Add(std::span<const double> golden,
                    std::span<const double> target) {
  const double deviation = deviations_[row_++];
  for (size_t k = 0; k < products_.size(); ++k) {
    products_[k] += deviation * (target[k] - golden[k]);
  }
}

std::vector<double> RowSumFit::Slopes() const {
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
