// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Recognizes errors of a linear op that follow from the sums of its input rows.
//
// The result of a linear op can be ill-conditioned although its inputs are
// harmless: if a row sums to about zero, as the result of a layer norm does,
// and the weights have a large common part c, then c times the sum cancels, and
// the rounding errors of the row are multiplied by c. If the weights were not
// recorded, the condition number is unknown, and any error could be a fault of
// the weights.
//
// The errors themselves show the difference. If s[i] is the difference between
// the runs of the sum of row i, a large common part of the weights makes the
// error w[k] s[i] in each channel k, with the same w for all rows. Faults of
// the op do not depend on the rounding errors of its input. The test therefore
// fits w to all rows and judges what remains. For an error that does not depend
// on s, the fit removes only about one part in the number of rows.
namespace msitd::compare {

// The fit needs at least so many rows, and so many of these with different
// sums. With eight rows, it removes 6 % of an error that has nothing to do with
// the sums.
inline constexpr uint64_t kFittedRowsMin = 8;
inline constexpr uint64_t kFittedSumsMin = 4;

// Returns a number as rounded to `digits` significant binary digits. Ignores
// overflow and underflow.
double RoundedTo(double value, int digits);

// Finds w by least squares. Thread-compatible.
class RowSumFit {
 public:
  explicit RowSumFit(size_t channels) : products_(channels) {}

  // Adds a row of results. `sum_error` is the difference of the sums of its
  // input row: target minus golden.
  void Add(double sum_error, std::span<const double> golden,
           std::span<const double> target);

  // Returns w; empty if there were too few rows.
  std::vector<double> Slopes() const;

 private:
  std::vector<double> products_;  // By channel: sum_error times the error.
  double squares_ = 0;            // Of sum_error.
  uint64_t row_count_ = 0;
  uint64_t sum_count_ = 0;  // Rows with a sum_error.
};

// Measures what remains of the errors after the part w[k] s[i] has been
// subtracted. Thread-compatible.
class RowSumRemainder {
 public:
  // The slopes must outlive the object.
  explicit RowSumRemainder(const std::vector<double>& slopes)
      : slopes_(slopes), channels_(slopes.size()) {}

  void Add(double sum_error, std::span<const double> golden,
           std::span<const double> target);

  // The metrics of the same names. `scaled_max_abs` is relative to the largest
  // golden magnitude.
  double Nl2() const;
  double ScaledMaxAbs() const;
  double RowNl2P50() const;
  double ChannelNl2P50() const;

 private:
  // Sums of squares.
  struct Squares {
    double error = 0;
    double golden = 0;
  };
  static double MedianOf(std::vector<Squares> squares);

  const std::vector<double>& slopes_;
  std::vector<Squares> rows_;
  std::vector<Squares> channels_;
  double largest_error_ = 0;
  double largest_golden_ = 0;
};

}  // namespace msitd::compare
