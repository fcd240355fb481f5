// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace msitd::compare {
namespace {

// The sums may be this many times as large as their differences, divided by the
// error that these cause.
constexpr double kSumsPerError = 2;

// Slopes are within so many standard deviations.
constexpr double kSlopeDeviations = 2;

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
    : deviations_(sum_errors) {
  const std::set<double> different(sum_errors.begin(), sum_errors.end());
  if (different.size() < kFittedRowsMin) return;
  double sum = 0;
  for (const double error : sum_errors) sum += error;
  const double mean = sum / static_cast<double>(sum_errors.size());
  for (double& deviation : deviations_) deviation -= mean;
  const double total = SumOfSquares(deviations_);
  if (!(total > 0) || !std::isfinite(total)) return;
  const std::vector<size_t> clusters = FindClusters();
  std::vector<double> squares;  // By cluster.
  for (size_t i = 0; i < clusters.size(); ++i) {
    squares.resize(std::max(squares.size(), clusters[i] + 1));
    squares[clusters[i]] += Square(deviations_[i]);
  }
  if (Square(total) >= kSpreadClustersMin * SumOfSquares(squares)) {
    FormFolds(clusters, squares, channels);
  }
}

std::vector<size_t> RowSumFit::FindClusters() const {
  std::vector<size_t> rows(deviations_.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::sort(rows.begin(), rows.end(), [this](size_t a, size_t b) {
    return deviations_[a] < deviations_[b];
  });
  const double width =
      kClusterWidth * std::sqrt(SumOfSquares(deviations_) /
                                static_cast<double>(deviations_.size()));
  std::vector<size_t> out(deviations_.size());
  size_t cluster = 0;
  double first = deviations_[rows.front()];
  for (const size_t row : rows) {
    if (deviations_[row] - first > width) {
      ++cluster;
      first = deviations_[row];
    }
    out[row] = cluster;
  }
  return out;
}

void RowSumFit::FormFolds(const std::vector<size_t>& clusters,
                          const std::vector<double>& squares, size_t channels) {
  // The largest deviations determine w, so each fold receives its share of
  // them.
  std::vector<size_t> by_size(squares.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return squares[a] > squares[b]; });
  const size_t count = std::min(squares.size(), kFoldsMax);
  std::vector<size_t> fold_of(squares.size());
  for (size_t i = 0; i < by_size.size(); ++i) fold_of[by_size[i]] = i % count;
  folds_.resize(count);
  for (Fold& fold : folds_) {
    fold.errors.resize(channels);
    fold.products.resize(channels);
  }
  for (size_t row = 0; row < deviations_.size(); ++row) {
    const double deviation = deviations_[row];
    Fold& fold = folds_[fold_of_.emplace_back(fold_of[clusters[row]])];
    fold.rows += 1;
    fold.deviations += deviation;
    fold.squares += Square(deviation);
  }
}

void RowSumFit::Add(std::span<const double> golden,
                    std::span<const double> target) {
  const double deviation = deviations_[row_];
  Fold& fold = folds_[fold_of_[row_]];
  for (size_t k = 0; k < fold.errors.size(); ++k) {
    const double error = target[k] - golden[k];
    fold.errors[k] += error;
    fold.products[k] += deviation * error;
  }
  ++row_;
}

RowSlopes RowSumFit::Slopes(double remaining_squares) const {
  double squares = 0;
  for (const Fold& fold : folds_) squares += fold.squares;
  const auto rows = static_cast<double>(deviations_.size());
  return {.of_channels = SlopesWithout(folds_.size()),
          .variance = remaining_squares / (rows - 1) / squares};
}

std::vector<std::vector<double>> RowSumFit::SlopesOfOthers() const {
  std::vector<std::vector<double>> out;
  for (size_t fold = 0; fold < folds_.size(); ++fold) {
    out.push_back(SlopesWithout(fold));
  }
  return out;
}

std::vector<double> RowSumFit::SlopesWithout(size_t fold) const {
  Fold all;
  all.errors.resize(folds_.front().errors.size());
  all.products.resize(all.errors.size());
  for (size_t i = 0; i < folds_.size(); ++i) {
    if (i == fold) continue;
    all.rows += folds_[i].rows;
    all.deviations += folds_[i].deviations;
    all.squares += folds_[i].squares;
    for (size_t k = 0; k < all.errors.size(); ++k) {
      all.errors[k] += folds_[i].errors[k];
      all.products[k] += folds_[i].products[k];
    }
  }
  const double mean = all.deviations / all.rows;
  const double squares = all.squares - mean * all.deviations;
  std::vector<double> out = std::move(all.products);
  for (size_t k = 0; k < out.size(); ++k) {
    // Rows that do not differ predict nothing.
    out[k] = squares > 0 ? (out[k] - mean * all.errors[k]) / squares : 0;
  }
  return out;
}

void RowSumRemainder::Add(std::span<const double> slopes, double sum_error,
                          std::span<const double> golden,
                          std::span<const double> target) {
  SquareSums& row = rows_.emplace_back();
  sum_squares_ += Square(sum_error);
  for (size_t k = 0; k < channels_.size(); ++k) {
    const double error = target[k] - golden[k] - slopes[k] * sum_error;
    row.error += error * error;
    row.golden += golden[k] * golden[k];
    errors_ += error;
    target_squares_ += Square(golden[k] + error);
    channels_[k].error += error * error;
    channels_[k].golden += golden[k] * golden[k];
    // NaN counts as the largest error.
    if (!(std::fabs(error) <= largest_error_))
      largest_error_ = std::fabs(error);
    largest_golden_ = std::max(largest_golden_, std::fabs(golden[k]));
  }
}

double RowSumRemainder::Nl2() const {
  SquareSums all;
  for (const SquareSums& row : rows_) {
    all.error += row.error;
    all.golden += row.golden;
  }
  return RatioOf(all.error, all.golden);
}

double RowSumRemainder::Squares() const {
  double out = 0;
  for (const SquareSums& row : rows_) out += row.error;
  return out;
}

double RowSumRemainder::ShareBeyond(const RowSlopes& slopes) const {
  const double remaining = Squares();
  const double of_slopes =
      Square(kSlopeDeviations) * slopes.variance * sum_squares_;
  return remaining > of_slopes ? std::sqrt(1 - of_slopes / remaining) : 0;
}

ErrorShape RowSumRemainder::Shape() const {
  double golden = 0;
  for (const SquareSums& row : rows_) golden += row.golden;
  const auto count = static_cast<double>(rows_.size() * channels_.size());
  return {.norm = std::sqrt(target_squares_ / golden) - 1,
          .mean = errors_ / std::sqrt(count * golden)};
}

double RowSumRemainder::ScaledMaxAbs() const {
  return largest_error_ / largest_golden_;
}

double RowSumRemainder::MedianOf(std::vector<SquareSums> squares) {
  if (squares.empty()) return 0;
  std::vector<double> ratios;
  ratios.reserve(squares.size());
  for (const SquareSums& of : squares) {
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
