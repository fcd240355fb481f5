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

// The base of all hypotheses about a mistake.
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
// Calls `visit(index, element)` for all elements in order. Much faster than
// IndexOf for each of them.
template <typename Visit>
void ForEachElement(const Slices& slices, const Visit& visit) {
  size_t element = 0;
  for (size_t outer = 0; outer < slices.outer; ++outer) {
    for (size_t index = 0; index < slices.count; ++index) {
      for (size_t k = 0; k < slices.inner; ++k) visit(index, element++);
    }
  }
}

Slices SlicesOf(std::span<const int64_t> shape, size_t dim);
// All rows: the last dimension is the row.
Slices RowsOf(std::span<const int64_t> shape);

// Returns whether all elements are equal, except NaN. `values` is not empty.
bool IsConstant(std::span<const double> values);

// A pair of tensors of the same shape that is examined, with the fits so far.
// Borrows the op.
class Examination {
 public:
  // Both tensors must have the same number of elements. Hypotheses other than
  // TestArrangements require that they have the same shape.
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
  double target_norm() const { return target_norm_; }
  bool is_finite() const { return is_finite_; }

  // Returns the norm of the difference between the target and `predict(i)`,
  // divided by the norm of the target, or by the larger norm of both tensors:
  // a difference of tensors has the errors of its terms. Infinite if it is
  // certain, after some elements, that the hypothesis does not hold.
  enum class Scale : uint8_t { kTarget, kLarger };
  template <typename Predict>
  double ResidualOf(const Predict& predict,
                    Scale scale = Scale::kLarger) const {
    if (!AgreesOnSample(predict)) return kInfinite;
    double squares = 0;
    for (size_t i = 0; i < size(); ++i) AddSquare(predict(i), i, squares);
    return ResidualOfSquares(squares, scale);
  }
  // The same for `predict(index, i)`.
  template <typename Predict>
  double ResidualOfEach(const Slices& slices, const Predict& predict,
                        Scale scale = Scale::kLarger) const {
    if (!AgreesOnSample(
            [&](size_t i) { return predict(slices.IndexOf(i), i); })) {
      return kInfinite;
    }
    double squares = 0;
    ForEachElement(slices, [&](size_t index, size_t i) {
      AddSquare(predict(index, i), i, squares);
    });
    return ResidualOfSquares(squares, scale);
  }

  // The parts of ResidualOf: add the square of the difference of an element,
  // and return the residual for their sum.
  void AddSquare(double predicted, size_t i, double& squares) const {
    const double a = target()[i];
    if (a != predicted && !(std::isnan(a) && std::isnan(predicted))) {
      squares += (a - predicted) * (a - predicted);
    }
  }
  double ResidualOfSquares(double squares, Scale scale) const;

  // Some elements of a large tensor. Hypotheses are tested on these first.
  const std::vector<size_t>& sample() const { return sample_; }
  // Returns whether an error on some elements, relative to their norm, permits
  // that the hypothesis holds for the whole tensor.
  bool MayHold(double squares, double norm_squares) const {
    constexpr double kTolerated = 8;
    return squares <= kTolerated * kTolerated * limit_ * limit_ * norm_squares;
  }

  // Returns whether the sample permits that `predict(i)` is the target.
  template <typename Predict>
  bool AgreesOnSample(const Predict& predict) const {
    double squares = 0;
    double norm = 0;
    for (const size_t i : sample_) {
      AddSquare(predict(i), i, squares);
      const double larger =
          std::max(std::fabs(target()[i]), std::fabs(golden()[i]));
      if (std::isfinite(larger)) norm += larger * larger;
    }
    const double largest = std::max(golden_norm_, target_norm_);
    const double whole = largest * largest *
                         static_cast<double>(sample_.size()) /
                         static_cast<double>(size());
    return sample_.empty() || MayHold(squares, std::max(norm, whole));
  }

  // Adds a fit if it explains the difference.
  void Offer(Fit fit);
  // Returns whether a residual would explain the difference.
  bool Holds(double residual, std::optional<double> without = {}) const;

  const std::vector<Fit>& fits() const { return fits_; }

 private:
  const ExaminedOp& op_;
  double golden_norm_ = 0;
  double target_norm_ = 0;
  double limit_ = 0;
  double without_ = 0;
  bool is_finite_ = true;
  std::vector<size_t> sample_;
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
// Orders of indices, moved rows and transposed axes (ORDER, SHIFT,
// ARRANGEMENT).
void TestArrangements(Examination& pair);
void TestOrders(Examination& pair);
void TestShifts(Examination& pair);
// Rotary embeddings (ROPE_PAIRS, ROPE_BASE, ROPE_POSITIONS).
void TestRotations(Examination& pair);
void TestRotationTables(Examination& pair);
void TestRotaryRates(Examination& pair);
// Probabilities and their masks (SOFTMAX_SCALE, MASK).
void TestProbabilities(Examination& pair);
// Attention that one op computes (SOFTMAX_SCALE, MASK, ORDER).
void TestAttention(Examination& pair);
// Norms (EPS).
void TestNorms(Examination& pair);
// Values (ROUNDED, SATURATED, ZEROS, DROPOUT).
void TestRounding(Examination& pair);
void TestLimits(Examination& pair);
void TestZeros(Examination& pair);

// Tables of integers with some wrong elements (ORDER, OFFSET).
void TestIntegerTables(Examination& pair);

// Returns `indices 3-5,7 of dimension 1`, with a limited length.
std::string IndicesText(const std::vector<size_t>& indices, size_t dim);

}  // namespace msitd::compare::explain
