// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/numeric/int128.h"
#include "protos/base/dtype.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {

// |t - g| is divided by this where g is zero: the spacing of doubles at 1.
inline constexpr double kZeroGoldenDivisor = 0x1p-52;

// The unfinished softmax of both sides. e^x is taken as 2^k e^r with a whole k.
// The sums are relative to the references 2^golden_exponent and
// 2^target_exponent: powers of two, so that moving a reference rounds nothing.
struct SoftmaxState {
  // False once an element that is not finite was seen.
  bool defined = true;
  bool started = false;
  double golden_exponent = 0;
  double target_exponent = 0;
  // With w = 2^(k - golden_exponent) e^r of each golden element: `golden` is
  // the sum of w, `target` its counterpart of the target side, and `weighted`
  // the sum of w (g - t - c), c = (golden_exponent - target_exponent) ln 2.
  LaneSum golden;
  LaneSum target;
  LaneSum weighted;
};

// How far, in powers of two, an element may exceed the reference before the
// reference is moved.
inline constexpr double kSoftmaxHeadroom = 32;
// Elements are taken as if no larger than this.
inline constexpr double kSoftmaxMagnitudeMax = 0x1p900;
// The softmax of a block is taken in float if no sum of squares of either side
// is above the first, and no reference above the second; otherwise in double.
inline constexpr double kSoftmaxFloatSquaresMax = 0x1p26;
inline constexpr double kSoftmaxFloatExponentMax = 0x1p20;

// Moves the references of both sides.
void MoveReferences(double golden_exponent, double target_exponent,
                    SoftmaxState& state);

// KL(softmax(g) || softmax(t)) in nats; NaN if it is not defined.
double KlDivergence(const SoftmaxState& state);

// What the squares of some elements can be summed up in, from the quickest to
// the most careful: float, double, or double after what is not finite was left
// out and magnitudes were scaled.
enum class Arithmetic { kFloat, kDouble, kCareful };

// Float serves for a block if no sum of squares of a virtual lane is above the
// first, and one of golden is at least the second, or all elements are zero.
inline constexpr double kFloatRowSquaresMax = kSoftmaxFloatSquaresMax;
inline constexpr double kFloatRowSquaresMin = 0x1p-60;

// An unfinished pair: what one call of a kernel hands to the next.
struct PairState {
  PairState(DType target_component, DType golden_component);

  DType target;
  DType golden;
  // Both sides are exact in float.
  bool as_float;

  uint64_t count = 0;
  // Pairs with a side that is not finite. They count as mismatches where the
  // sides differ; everywhere else they are taken as two zeros.
  uint64_t cleared_count = 0;
  uint64_t mismatch_count = 0;
  uint64_t nan_mismatch_count = 0;
  uint64_t infinity_mismatch_count = 0;

  // d is t - g; ratios are |d| / |g|.
  LaneSum target_squares;
  LaneSum golden_squares;
  LaneSum products;
  LaneSum difference_squares;
  LaneSum differences;
  LaneSum ratios;
  double max_ratio = 0;
  // Negative before the first block.
  double max_difference = -1;
  uint64_t max_index = 0;
  double max_target = 0;
  double max_golden = 0;
  // The pair at `max_index` as integers, if double may round a side of it.
  struct IntegerPair {
    uint64_t index = 0;
    absl::int128 target = 0;
    absl::int128 golden = 0;
  };
  std::optional<IntegerPair> max_integers;

  SoftmaxState softmax;

  // What serves for all elements since this was last set to kFloat.
  Arithmetic arithmetic = Arithmetic::kFloat;
  void NeedArithmetic(Arithmetic least) {
    if (least > arithmetic) arithmetic = least;
  }
};

// Remembers the pair at `index` if its |t - g| is the largest so far.
void OfferDifference(double difference, double t, double g, uint64_t index,
                     PairState& state);
inline void OfferDifference(double t, double g, uint64_t index,
                            PairState& state) {
  OfferDifference(std::fabs(t - g), t, g, index, state);
}

// Replaces pairs with a side that is not finite by zeros, counts them and their
// mismatches, and marks the softmax as undefined. Returns false if there was no
// such pair.
template <typename T>
bool ClearNonFinite(T (&target)[kBlockElements], T (&golden)[kBlockElements],
                    PairState& state);

// Adds a block of `count` finite pairs of any magnitude, in double, to all but
// the softmax. Both arrays are zero from `count` on. `state.count` is the index
// of the first pair and stays as it is.
void AddPairCarefully(const double (&target)[kBlockElements],
                      const double (&golden)[kBlockElements], size_t count,
                      PairState& state);

// Add the differences of a block, divided by 2^exponent, and its ratios.
void AddDifferences(const double (&difference)[kBlockElements],
                    int64_t exponent, PairState& state);
void AddRatios(const double (&ratio)[kBlockElements], PairState& state);

}  // namespace msitd::compute
