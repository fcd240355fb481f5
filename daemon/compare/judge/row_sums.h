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
// error w[k] s[i] in each channel k, with the same w for all rows. The test
// therefore fits w to all rows and judges what remains. For an error that does
// not depend on s, the fit removes only about one part in the number of rows.
//
// Faults can look like this in several ways, each of which has its condition:
//
// - An error that is equal in all rows, such as that of a bias, follows s if s
//   has a mean. The fit ignores the mean of s.
// - A few rows, or rows that are equal, fit any error. The deviations of s from
//   its mean must be spread over enough rows, and enough of them must differ.
// - Errors that are proportional to the sums of the rows follow s if an earlier
//   op has changed the scale. Such sums are not roundings (MayBeRoundedSums).
namespace msitd::compare {

// The fit needs at least so many rows. So many of them must have different
// sums, and the deviations must be spread over so many: (sum of squares)^2 is
// at least this many times the sum of fourth powers.
inline constexpr uint64_t kFittedRowsMin = 8;

// A row cancels if its sum is at most this share of the sum of its magnitudes.
inline constexpr double kCancelledMax = 1.0 / 16;

// The sums of the rows of a tensor. Thread-compatible.
struct RowSums {
  std::vector<double> sums;
  double squares = 0;     // Sum of the squares of all elements.
  bool do_cancel = true;  // Applies to all rows.

  void Add(std::span<const double> row);
};

// Returns whether all rows cancel and the differences between the sums can be
// rounding errors of elements that have relative errors up to `rounding`. `nl2`
// is the error of the results that is to be explained. The part of the weights
// that multiplies the differences multiplies the sums as well, so the results
// are large and this error is small unless the sums are about as small as their
// differences.
bool MayBeRoundedSums(const RowSums& golden, const RowSums& target,
                      double rounding, double nl2);

// Returns a number as rounded to `digits` significant binary digits. Ignores
// overflow and underflow.
double RoundedTo(double value, int digits);

// Finds w by least squares, from the deviations of s from its mean.
// Thread-compatible.
class RowSumFit {
 public:
  // `sum_errors` are the differences s of the sums of the input rows: target
  // minus golden.
  RowSumFit(const std::vector<double>& sum_errors, size_t channels);

  // Returns whether the rows determine w. Otherwise, they fit any error.
  bool IsDetermined() const { return is_determined_; }

  // Adds the next row of results. Requires IsDetermined.
  void Add(std::span<const double> golden, std::span<const double> target);

  // Returns w after all rows have been added. Requires IsDetermined.
  std::vector<double> Slopes() const;

 private:
  std::vector<double> deviations_;  // By row.
  std::vector<double> products_;    // By channel: deviation times error.
  double squares_ = 0;              // Sum over the deviations.
  size_t row_ = 0;
  bool is_determined_ = false;
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
