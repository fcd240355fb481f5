// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/compare/judge/error_shape.h"

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
// error w[k] s[i] in each channel k, with the same w for all rows. So the error
// of one row predicts those of the others. The test is a cross-validation: it
// fits w to some rows, predicts the errors of the others from it, and judges
// what remains of them. An error that does not depend on s is not predicted.
//
// Faults can look like this in several ways, each of which has its condition:
//
// - An error that is equal in all rows, such as that of a bias, follows s if s
//   has a mean. The fit ignores the mean of s.
// - Equal rows predict any error of each other. Rows with nearly equal s form a
//   cluster and are in the same fold: either all are fitted, or all are
//   predicted.
// - Few rows agree by chance. Enough of them must differ, no cluster may have
//   most of the deviations, and the prediction must account for most of the
//   error.
// - Errors that are proportional to the sums of the rows follow s if an earlier
//   op has changed the scale. Such sums are not roundings (MayBeRoundedSums).
namespace msitd::compare {

// The fit needs at least so many rows with different sums.
inline constexpr size_t kFittedRowsMin = 6;

// Rows form a cluster if their sums differ by at most this share of the root
// mean square of the deviations.
inline constexpr double kClusterWidth = 0.25;

// The deviations are spread over at least so many clusters: (sum of squares)^2
// is at least this many times the sum of the squares of those of each cluster.
inline constexpr double kSpreadClustersMin = 2;

// Maximum number of folds of the cross-validation.
inline constexpr size_t kFoldsMax = 8;

// After the predicted part is subtracted, at most this share of the norm of an
// error remains. It may be an error that the input passes on. Slopes of an
// earlier token do not agree with an error by chance, so less of it is enough.
inline constexpr double kRemainingShareMax = 0.5;
inline constexpr double kRemainingShareLaterMax = 0.8;

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

// The slopes w of an op, which its later tokens use if they have too few rows.
struct RowSlopes {
  std::vector<double> of_channels;
  // The expected square of the error of the slopes, added over the channels.
  double variance = 0;
};

// Finds w by least squares, from the deviations of s from its mean: from all
// rows, and from all but those of each fold. Thread-compatible.
class RowSumFit {
 public:
  // `sum_errors` are the differences s of the sums of the input rows: target
  // minus golden.
  RowSumFit(const std::vector<double>& sum_errors, size_t channels);

  // Returns whether the rows determine w. Otherwise, they fit any error.
  bool IsDetermined() const { return !fold_of_.empty(); }

  // Adds the next row of results. Requires IsDetermined.
  void Add(std::span<const double> golden, std::span<const double> target);

  // Returns w from all rows that have been added. `remaining_squares` is that
  // of the remainder after SlopesOfOthers. Requires IsDetermined.
  RowSlopes Slopes(double remaining_squares) const;

  // Returns w for each fold, from all rows of the other folds. Requires
  // IsDetermined and that all rows have been added.
  std::vector<std::vector<double>> SlopesOfOthers() const;

  // Returns the fold of a row, as an index of SlopesOfOthers.
  size_t FoldOf(size_t row) const { return fold_of_[row]; }

 private:
  // Sums over rows; d is the deviation of s, e the error of a channel.
  struct Fold {
    double rows = 0;
    double deviations = 0;         // Sum of d.
    double squares = 0;            // Sum of d^2.
    std::vector<double> errors;    // By channel: sum of e.
    std::vector<double> products;  // By channel: sum of d e.
  };
  // Returns the cluster of each row.
  std::vector<size_t> FindClusters() const;
  void FormFolds(const std::vector<size_t>& clusters,
                 const std::vector<double>& squares, size_t channels);
  std::vector<double> SlopesWithout(size_t fold) const;

  std::vector<double> deviations_;  // By row.
  std::vector<size_t> fold_of_;     // By row.
  std::vector<Fold> folds_;
  size_t row_ = 0;
};

// Measures what remains of the errors after the part w[k] s[i] has been
// subtracted. Thread-compatible.
class RowSumRemainder {
 public:
  explicit RowSumRemainder(size_t channels) : channels_(channels) {}

  // Adds the next row, whose error is predicted from `slopes`.
  void Add(std::span<const double> slopes, double sum_error,
           std::span<const double> golden, std::span<const double> target);

  // The metrics of the same names. `scaled_max_abs` is relative to the largest
  // golden magnitude.
  double Nl2() const;
  double ScaledMaxAbs() const;
  double RowNl2P50() const;
  double ChannelNl2P50() const;

  // Returns the sum of the squares of the remaining errors.
  double Squares() const;

  // Returns the part of Nl2 for which errors of the slopes do not account, up
  // to two standard deviations, as a share of Nl2.
  double ShareBeyond(const RowSlopes& slopes) const;

  // Returns how what remains changes the whole tensor.
  ErrorShape Shape() const;

 private:
  // Sums of squares.
  struct SquareSums {
    double error = 0;
    double golden = 0;
  };
  static double MedianOf(std::vector<SquareSums> squares);

  std::vector<SquareSums> rows_;
  std::vector<SquareSums> channels_;
  double largest_error_ = 0;
  double largest_golden_ = 0;
  double sum_squares_ = 0;  // Squares of the differences of the sums.
  double errors_ = 0;       // Sum of the remaining errors.
  // Squares of the target values without the predicted part.
  double target_squares_ = 0;
};

}  // namespace msitd::compare
