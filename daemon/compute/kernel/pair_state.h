// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "daemon/compute/number/lane_sum.h"
#include "protos/base/dtype.h"

namespace msitd::compute {

// |t - g| is divided by this where g is zero: the spacing of doubles at 1.
inline constexpr double kZeroGoldenDivisor = 0x1p-52;

// Softmax of both sides in the making. e^x is taken as 2^k e^r with a whole k,
// and the sums are kept relative to 2^golden_exponent and 2^target_exponent,
// so that moving the reference rounds nothing.
struct SoftmaxState {
  // False once an element that is not finite was seen.
  bool defined = true;
  bool started = false;
  double golden_exponent = 0;
  double target_exponent = 0;
  // With w = 2^(k - golden_exponent) e^r of the golden side: sum of w; its
  // counterpart of the target side; and sum of w (g - t - c), where c is
  // (golden_exponent - target_exponent) ln 2.
  LaneSum golden;
  LaneSum target;
  LaneSum weighted;
};

// How far, in powers of two, an element may exceed the reference before the
// reference is moved.
inline constexpr double kSoftmaxHeadroom = 32;
// Elements are taken as if no larger than this.
inline constexpr double kSoftmaxMagnitudeMax = 0x1p900;
// Blocks with sums of squares beyond this on either side, or with references
// beyond the other, are taken in double.
inline constexpr double kSoftmaxFloatSquaresMax = 0x1p26;
inline constexpr double kSoftmaxFloatExponentMax = 0x1p20;

// Moves the references of both sides.
void MoveReferences(double golden_exponent, double target_exponent,
                    SoftmaxState& state);

// KL(softmax(g) || softmax(t)) in nats; NaN if it is not defined.
double KlDivergence(const SoftmaxState& state);

// A pair being compared: what one call of a kernel hands to the next.
struct PairState {
  PairState(DType target_component, DType golden_component);

  DType target;
  DType golden;
  // Both sides are exact in float.
  bool as_float;

  uint64_t count = 0;
  // Pairs of which a side is not finite: they count as mismatches where they
  // differ, and otherwise as a pair of zeros.
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

  SoftmaxState softmax;
};

// Takes note of the |t - g| of the pair at `index`.
void OfferDifference(double difference, double t, double g, uint64_t index,
                     PairState& state);
inline void OfferDifference(double t, double g, uint64_t index,
                            PairState& state) {
  OfferDifference(std::fabs(t - g), t, g, index, state);
}

// Turns pairs of which a side is not finite into zeros and counts them, what
// differs among them, and says that the softmax is not defined. Returns false
// if there was none.
template <typename T>
bool ClearNonFinite(T (&target)[kBlockElements], T (&golden)[kBlockElements],
                    PairState& state);

// Adds a block of `count` finite pairs with any magnitudes, all but the
// softmax, in double. Both arrays are zero from `count` on. Does not touch
// `state.count`, which is the index of the first pair.
void AddPairCarefully(const double (&target)[kBlockElements],
                      const double (&golden)[kBlockElements], size_t count,
                      PairState& state);

// Add the differences of a block, divided by 2^exponent, and its ratios.
void AddDifferences(const double (&difference)[kBlockElements],
                    int64_t exponent, PairState& state);
void AddRatios(const double (&ratio)[kBlockElements], PairState& state);

}  // namespace msitd::compute
