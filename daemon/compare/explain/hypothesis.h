// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/explanation.h"

// What the hypotheses about a mistake have in common.
namespace msitd::compare::explain {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The result of a hypothesis.
struct Fit {
  Kind kind = Kind::kUnspecified;
  std::string text;
  std::vector<double> parameters = {};
  // How much must be assumed. The simplest fit is the explanation.
  double complexity = 0;
  // The number of parameters that were fitted to the target. Each takes one
  // degree of freedom from the elements.
  size_t fitted = 0;
  double residual = kInfinite;
  // The error without the mistake, if it is not that of the whole tensor.
  std::optional<double> without = {};
  std::string where = {};
};

// How the indices of a dimension divide a tensor in row-major order.
struct Slices {
  size_t count = 1;  // Indices of the dimension.
  size_t inner = 1;  // Elements that are adjacent at each index.
  size_t outer = 1;  // Times that all indices occur.

  size_t width() const { return inner * outer; }
  size_t IndexOf(size_t element) const { return element / inner % count; }
  size_t At(size_t index, size_t i) const {
    return (i / inner * count + index) * inner + i % inner;
  }
};
Slices SlicesOf(std::span<const int64_t> shape, size_t dim);
// All rows: the last dimension is the row.
Slices RowsOf(std::span<const int64_t> shape);

// A pair of tensors of the same shape that is examined, with the fits so far.
// Borrows the op.
class Examination {
 public:
  // Both tensors must have the same number of elements.
  explicit Examination(const ExaminedOp& op);

  std::span<const double> golden() const { return op_.golden.values; }
  std::span<const double> target() const { return op_.target.values; }
  const std::vector<int64_t>& shape() const { return op_.golden.shape; }
  const std::vector<ExaminedInput>& inputs() const { return op_.inputs; }
  const ExaminedOp& op() const { return op_; }
  size_t size() const { return op_.golden.values.size(); }
  double noise() const { return op_.noise; }
  // The largest residual of an explanation.
  double limit() const { return limit_; }
  // The error without any mistake.
  double without() const { return without_; }
  double golden_norm() const { return golden_norm_; }
  bool is_finite() const { return is_finite_; }

  // Returns the norm of the difference between the target and `predict(i)`,
  // divided by the norm of the golden tensor. Infinite if it is certain, after
  // some elements, that the hypothesis does not hold.
  template <typename Predict>
  double ResidualOf(const Predict& predict) const {
    constexpr size_t kSampled = 512;
    if (size() > 8 * kSampled && !AgreesOn(kSampled, predict)) return kInfinite;
    double squares = 0;
    for (size_t i = 0; i < size(); ++i) {
      const double a = target()[i];
      const double b = predict(i);
      if (a != b && !(std::isnan(a) && std::isnan(b))) {
        squares += (a - b) * (a - b);
      }
    }
    return std::isnan(squares) ? kInfinite : std::sqrt(squares) / golden_norm_;
  }

  // Adds a fit if it explains the difference.
  void Offer(Fit fit);
  // Returns whether a residual would explain the difference.
  bool Holds(double residual, std::optional<double> without = {}) const;

  const std::vector<Fit>& fits() const { return fits_; }

 private:
  template <typename Predict>
  bool AgreesOn(size_t count, const Predict& predict) const {
    // A wrong hypothesis has an error near `without_`.
    constexpr double kTolerated = 8;
    const size_t step = std::max<size_t>(size() / count | 1, 1);
    double squares = 0;
    double norm = 0;
    size_t seen = 0;
    for (size_t i = step / 2; i < size(); i += step, ++seen) {
      const double a = target()[i];
      const double b = predict(i);
      if (a != b && !(std::isnan(a) && std::isnan(b))) {
        squares += (a - b) * (a - b);
      }
      const double g = golden()[i];
      if (std::isfinite(g)) norm += g * g;
    }
    const double whole = golden_norm_ * golden_norm_ *
                         static_cast<double>(seen) /
                         static_cast<double>(size());
    return squares <=
           kTolerated * kTolerated * limit_ * limit_ * std::max(norm, whole);
  }

  const ExaminedOp& op_;
  double golden_norm_ = 0;
  double limit_ = 0;
  double without_ = 0;
  bool is_finite_ = true;
  std::vector<Fit> fits_;
};

// A hypothesis: tests mistakes of a few kinds and offers those that hold.
using Hypothesis = void (*)(Examination&);

// Factors and constants (FACTOR, SIGN, OFFSET, AFFINE).
void TestFactors(Examination& pair);
// Tensors that were added or not (TERM, SAME_AS_INPUT).
void TestTerms(Examination& pair);
// Functions of each element (ACTIVATION, SWAPPED_INPUTS).
void TestActivations(Examination& pair);
// Orders of indices and moved rows (ORDER, SHIFT).
void TestOrders(Examination& pair);
void TestShifts(Examination& pair);
// Rotary embeddings (ROPE_PAIRS, ROPE_BASE, ROPE_POSITIONS).
void TestRotations(Examination& pair);
void TestRotationTables(Examination& pair);
// Probabilities and their masks (SOFTMAX_SCALE, MASK).
void TestProbabilities(Examination& pair);
// Norms (EPS).
void TestNorms(Examination& pair);
// Values (ROUNDED, SATURATED, ZEROS, DROPOUT).
void TestRounding(Examination& pair);
void TestLimits(Examination& pair);
void TestZeros(Examination& pair);

// Returns `indices 3-5,7 of dimension 1`, with a limited length.
std::string IndicesText(const std::vector<size_t>& indices, size_t dim);

}  // namespace msitd::compare::explain
