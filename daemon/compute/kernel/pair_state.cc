// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/pair_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

using Block = double[kBlockElements];

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

double Largest(const Block& x) {
  double largest = 0;
  for (const double e : x) largest = std::max(largest, std::fabs(e));
  return largest;
}

// Returns the power of two that a block with this largest magnitude is scaled
// by before it is squared or multiplied.
int64_t ExponentFor(double largest) {
  if (largest > kLargeMagnitude) return -kScaleExponent;
  if (largest != 0 && largest < kSmallMagnitude) return kScaleExponent;
  return 0;
}

void ScaleBlock(const Block& x, int64_t exponent, Block& out) {
  const double factor = Scale(1, exponent);
  for (size_t i = 0; i < kBlockElements; ++i) out[i] = x[i] * factor;
}

void AddProducts(const Block& a, const Block& b, int64_t exponent,
                 LaneSum& sum) {
  Block products;
  for (size_t i = 0; i < kBlockElements; ++i) products[i] = a[i] * b[i];
  double lanes[kFoldLanes];
  SumBlock(products, lanes);
  sum.Add(lanes, exponent);
}

}  // namespace

void MoveReferences(double golden_exponent, double target_exponent,
                    SoftmaxState& state) {
  if (state.started) {
    // References only rise, so factors are at most 1; 2^-2000 of any sum is 0.
    const auto factor = [](double from, double to) {
      return Scale(1, static_cast<int64_t>(std::max(from - to, -2e3)));
    };
    const double golden_factor = factor(state.golden_exponent, golden_exponent);
    const double target_factor = factor(state.target_exponent, target_exponent);
    const double shift = ((state.golden_exponent - state.target_exponent) -
                          (golden_exponent - target_exponent)) *
                         kLn2;
    // The c of SoftmaxState falls by `shift`, so every w (g - t - c) rises by
    // w * shift.
    for (size_t j = 0; j < kFoldLanes; ++j) {
      double& golden = state.golden.lane[j];
      double& weighted = state.weighted.lane[j];
      weighted =
          golden_factor == 0 ? 0 : (weighted + shift * golden) * golden_factor;
      golden *= golden_factor;
      state.target.lane[j] *= target_factor;
    }
  }
  state.golden_exponent = golden_exponent;
  state.target_exponent = target_exponent;
  state.started = true;
}

double KlDivergence(const SoftmaxState& state) {
  if (!state.defined || !state.started) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  // The references cancel: KL = E_p[g - t] + log Z(t) - log Z(g).
  const double golden = state.golden.Mantissa();
  const double kl = state.weighted.Mantissa() / golden +
                    Log(state.target.Mantissa() / golden);
  return kl < 0 ? 0 : kl;
}

PairState::PairState(DType target_component, DType golden_component)
    : target(target_component),
      golden(golden_component),
      as_float(FitsFloat(target_component) && FitsFloat(golden_component)) {}

void OfferDifference(double difference, double t, double g, uint64_t index,
                     PairState& state) {
  if (!(difference > state.max_difference)) return;
  state.max_difference = difference;
  state.max_index = index;
  state.max_target = t;
  state.max_golden = g;
}

template <typename T>
bool ClearNonFinite(T (&target)[kBlockElements], T (&golden)[kBlockElements],
                    PairState& state) {
  uint64_t cleared = 0;
  for (size_t i = 0; i < kBlockElements; ++i) {
    T& t = target[i];
    T& g = golden[i];
    if (std::isfinite(t) && std::isfinite(g)) continue;
    ++cleared;
    const bool t_nan = std::isnan(t);
    const bool g_nan = std::isnan(g);
    if (t != g && !(t_nan && g_nan)) ++state.mismatch_count;
    if (t_nan != g_nan) ++state.nan_mismatch_count;
    if ((std::isinf(t) || std::isinf(g)) && t != g) {
      ++state.infinity_mismatch_count;
    }
    t = 0;
    g = 0;
  }
  if (cleared == 0) return false;
  state.cleared_count += cleared;
  state.softmax.defined = false;
  return true;
}

template bool ClearNonFinite(float (&target)[kBlockElements],
                             float (&golden)[kBlockElements], PairState& state);
template bool ClearNonFinite(double (&target)[kBlockElements],
                             double (&golden)[kBlockElements],
                             PairState& state);

void AddDifferences(const Block& difference, int64_t exponent,
                    PairState& state) {
  const int64_t own = exponent == 0 ? ExponentFor(Largest(difference)) : 0;
  Block scaled;
  ScaleBlock(difference, own, scaled);
  AddProducts(scaled, scaled, 2 * (exponent - own), state.difference_squares);

  Block magnitude;
  for (size_t i = 0; i < kBlockElements; ++i) {
    magnitude[i] = std::fabs(difference[i]);
  }
  double lanes[kFoldLanes];
  SumBlock(magnitude, lanes);
  state.differences.Add(lanes, exponent);
}

void AddRatios(const Block& ratio, PairState& state) {
  for (const double r : ratio) state.max_ratio = std::max(state.max_ratio, r);
  double lanes[kFoldLanes];
  SumBlock(ratio, lanes);
  state.ratios.Add(lanes, 0);
}

void AddPairCarefully(const Block& target, const Block& golden, size_t count,
                      PairState& state) {
  for (size_t i = 0; i < count; ++i) {
    if (target[i] != golden[i]) ++state.mismatch_count;
    OfferDifference(target[i], golden[i], state.count + i, state);
  }
  const double target_largest = Largest(target);
  const double golden_largest = Largest(golden);
  const int64_t target_exponent = ExponentFor(target_largest);
  const int64_t golden_exponent = ExponentFor(golden_largest);
  Block t;
  Block g;
  ScaleBlock(target, target_exponent, t);
  ScaleBlock(golden, golden_exponent, g);
  AddProducts(t, t, -2 * target_exponent, state.target_squares);
  AddProducts(g, g, -2 * golden_exponent, state.golden_squares);
  AddProducts(t, g, -(target_exponent + golden_exponent), state.products);

  const bool is_large =
      std::max(target_largest, golden_largest) > kLargeMagnitude;
  const double factor = is_large ? kScaleDown : 1;
  Block difference;
  Block ratio;
  for (size_t i = 0; i < kBlockElements; ++i) {
    difference[i] = target[i] * factor - golden[i] * factor;
    const double divisor =
        golden[i] == 0 ? kZeroGoldenDivisor : std::fabs(golden[i]);
    ratio[i] = std::fabs(target[i] - golden[i]) / divisor;
  }
  AddDifferences(difference, is_large ? kScaleExponent : 0, state);
  AddRatios(ratio, state);
}

}  // namespace msitd::compute
