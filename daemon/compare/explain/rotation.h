// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// Rotary embeddings: pairs of elements that are rotated by an angle, which is
// the position times the frequency of the pair, base^(-2 i / width).
namespace msitd::compare::explain {

// Where the two elements of a pair are.
enum class RopePairs : uint8_t { kHalves, kAdjacent };

// The pairs of the last dimension, at the indices of a dimension of positions.
class RotationGrid {
 public:
  RotationGrid(std::span<const int64_t> shape, size_t positions_dim,
               RopePairs pairs);

  size_t positions() const { return slices_.count; }
  size_t pair_count() const { return width_ / 2; }
  size_t width() const { return width_; }
  size_t cell_count() const { return positions() * pair_count(); }

  // Returns the cell of an element, which is its position and pair.
  size_t CellOf(size_t element) const {
    return slices_.IndexOf(element) * pair_count() + PairOf(element);
  }
  size_t PairOf(size_t element) const {
    const size_t i = element % width_;
    return pairs_ == RopePairs::kHalves ? i % pair_count() : i / 2;
  }
  bool IsFirst(size_t element) const {
    const size_t i = element % width_;
    return pairs_ == RopePairs::kHalves ? i < pair_count() : i % 2 == 0;
  }
  size_t FirstOf(size_t element) const {
    if (IsFirst(element)) return element;
    return element - (pairs_ == RopePairs::kHalves ? pair_count() : 1);
  }
  // Returns the other element of the pair of the first one.
  size_t SecondOf(size_t first) const {
    return first + (pairs_ == RopePairs::kHalves ? pair_count() : 1);
  }

  // Returns the rotation of each cell that turns `from` into `to`, by least
  // squares. Each is of length 1, or 0 if the cell is zero.
  std::vector<std::complex<double>> Rotations(std::span<const double> from,
                                              std::span<const double> to) const;
  // Returns an element of `from` after a rotation of its pair.
  double RotatedAt(std::span<const double> from, size_t element,
                   const std::complex<double>& rotation) const {
    const size_t first = FirstOf(element);
    const double a = from[first];
    const double b = from[SecondOf(first)];
    return first == element ? a * rotation.real() - b * rotation.imag()
                            : b * rotation.real() + a * rotation.imag();
  }
  // Calls `visit(cell, first, second)` for the elements of all pairs.
  template <typename Visit>
  void ForEachPair(size_t size, const Visit& visit) const {
    for (size_t begin = 0; begin < size; begin += width_) {
      const size_t cells = slices_.IndexOf(begin) * pair_count();
      for (size_t i = 0; i < pair_count(); ++i) {
        const size_t first = begin + (pairs_ == RopePairs::kHalves ? i : 2 * i);
        visit(cells + i, first, SecondOf(first));
      }
    }
  }
  // Returns the residual of the target as `from` with `rotation(cell)` of each
  // cell.
  template <typename Rotation>
  double ResidualOf(const Examination& pair, std::span<const double> from,
                    const Rotation& rotation) const {
    const bool may_hold = pair.AgreesOnSample(
        [&](size_t i) { return RotatedAt(from, i, rotation(CellOf(i))); });
    if (!may_hold) return kInfinite;
    double squares = 0;
    ForEachPair(from.size(), [&](size_t cell, size_t first, size_t second) {
      const std::complex<double> to = rotation(cell);
      const double a = from[first];
      const double b = from[second];
      pair.AddSquare(a * to.real() - b * to.imag(), first, squares);
      pair.AddSquare(b * to.real() + a * to.imag(), second, squares);
    });
    return pair.ResidualOfSquares(squares, Examination::Scale::kLarger);
  }

 private:
  RopePairs pairs_;
  Slices slices_;
  size_t width_ = 0;
};

// The frequencies scale * base^(-2 i / width).
struct Frequencies {
  double base = 0;
  double scale = 1;

  double Of(size_t pair, size_t width) const;
};

// Returns the base and the scale that fit some frequencies, by least squares of
// their logarithms. Frequencies that are not positive are left out. nullopt if
// fewer than 2 are left.
std::optional<Frequencies> FitFrequencies(std::span<const double> frequencies,
                                          size_t width);

// Returns a base without the noise of its fit: 10000 for 9998.7.
double RoundedBase(double base);

}  // namespace msitd::compare::explain
