// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/pair_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "daemon/compute/kernel/exponential.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/kernel/reference_lanes.h"

namespace msitd::compute {
namespace {

template <typename T>
struct Split {
  T k;
  T r;
};

Split<float> SplitExponent(float x) {
  using E = Exponential<float>;
  const float shifted = x * E::kLog2E + E::kRound;
  const float k = shifted - E::kRound;
  return {k, (x - k * E::kLn2High) - k * E::kLn2Low};
}

Split<double> SplitExponent(double x) {
  using E = Exponential<double>;
  x = std::clamp(x, -kSoftmaxMagnitudeMax, kSoftmaxMagnitudeMax);
  double k = x * E::kLog2E;
  if (std::fabs(k) < E::kRoundMax) {
    const double shifted = k + E::kRound;
    k = shifted - E::kRound;
  }
  const double r = ((x - k * E::kLn2High) - k * E::kLn2Middle) - k * E::kLn2Low;
  return {k, std::clamp(r, -E::kRemainderMax, E::kRemainderMax)};
}

template <typename T>
T Power(T above, T r) {
  using E = Exponential<T>;
  const T square = r * r;
  T even = 0;
  for (size_t i = E::kEvenTerms; i-- > 0;) even = even * square + E::kEven[i];
  T odd = 0;
  for (size_t i = E::kOddTerms; i-- > 0;) odd = odd * square + E::kOdd[i];
  const T series = even + odd * r;
  const T power = (series * square + r) + 1;
  if (above <= -E::kBias) return 0;
  return power * std::ldexp(T{1}, static_cast<int>(above));
}

template <typename T>
void SoftmaxBlock(const std::array<T, kBlockElements>& target,
                  const std::array<T, kBlockElements>& golden, size_t count,
                  SoftmaxState& state) {
  std::array<Split<T>, kBlockElements> t;
  std::array<Split<T>, kBlockElements> g;
  T target_k = -std::numeric_limits<T>::infinity();
  T golden_k = target_k;
  for (size_t i = 0; i < count; ++i) {
    t[i] = SplitExponent(target[i]);
    g[i] = SplitExponent(golden[i]);
    target_k = std::max(target_k, t[i].k);
    golden_k = std::max(golden_k, g[i].k);
  }
  const auto moved = [&state](double k, double exponent) {
    return !state.started || k > exponent + kSoftmaxHeadroom ? k : exponent;
  };
  const double golden_exponent = moved(golden_k, state.golden_exponent);
  const double target_exponent = moved(target_k, state.target_exponent);
  if (!state.started || golden_exponent != state.golden_exponent ||
      target_exponent != state.target_exponent) {
    MoveReferences(golden_exponent, target_exponent, state);
  }
  std::array<T, kBlockElements> golden_powers = {};
  std::array<T, kBlockElements> target_powers = {};
  std::array<T, kBlockElements> weighted = {};
  for (size_t i = 0; i < count; ++i) {
    const T g_above = g[i].k - static_cast<T>(golden_exponent);
    const T t_above = t[i].k - static_cast<T>(target_exponent);
    golden_powers[i] = Power(g_above, g[i].r);
    target_powers[i] = Power(t_above, t[i].r);
    weighted[i] =
        golden_powers[i] *
        (Exponential<T>::kLn2 * (g_above - t_above) + (g[i].r - t[i].r));
  }
  AddTo(state.golden, SumLanes(golden_powers));
  AddTo(state.target, SumLanes(target_powers));
  AddTo(state.weighted, SumLanes(weighted));
}

bool Vanishes(const VirtualLanes<double>& squares,
              const std::array<double, kBlockElements>& block) {
  return !AnyAtLeast(squares, kSquaresLow<double>) &&
         std::any_of(block.begin(), block.end(),
                     [](double x) { return x != 0; });
}

bool FloatSoftmax(const VirtualLanes<double>& target_squares,
                  const VirtualLanes<double>& golden_squares,
                  const SoftmaxState& state) {
  return AllAtMost(target_squares, kSoftmaxFloatSquaresMax) &&
         AllAtMost(golden_squares, kSoftmaxFloatSquaresMax) &&
         std::fabs(state.golden_exponent) <= kSoftmaxFloatExponentMax &&
         std::fabs(state.target_exponent) <= kSoftmaxFloatExponentMax;
}

bool FloatRows(const VirtualLanes<double>& target_squares,
               const VirtualLanes<double>& golden_squares) {
  const auto all_zero = [](const VirtualLanes<double>& squares) {
    return AllAtMost(squares, 0.0);
  };
  return AllAtMost(target_squares, kFloatRowSquaresMax) &&
         AllAtMost(golden_squares, kFloatRowSquaresMax) &&
         (AnyAtLeast(golden_squares, kFloatRowSquaresMin) ||
          (all_zero(target_squares) && all_zero(golden_squares)));
}

template <typename To, typename From>
std::array<To, kBlockElements> As(const std::array<From, kBlockElements>& in) {
  std::array<To, kBlockElements> out;
  std::transform(in.begin(), in.end(), out.begin(),
                 [](From x) { return static_cast<To>(x); });
  return out;
}

// T, exact for all elements, is the type of the ratios, and of the softmax
// where it serves.
template <typename T>
bool PairBlock(const std::array<double, kBlockElements>& t,
               const std::array<double, kBlockElements>& g, PairState& state) {
  const auto times = [](double a, double b) { return a * b; };
  const auto d = Map(t, g, [](double a, double b) { return std::fabs(a - b); });
  const auto tt = SumLanes(Map(t, t, times));
  const auto gg = SumLanes(Map(g, g, times));
  const auto dd = SumLanes(Map(d, d, times));
  if (!AllAtMost(tt, kSquaresHigh<double>)) return false;
  if (!AllAtMost(gg, kSquaresHigh<double>)) return false;
  if (!state.as_float) {
    if (!AllAtMost(dd, kSquaresHigh<double>)) return false;
    if (Vanishes(tt, t) || Vanishes(gg, g) || Vanishes(dd, d)) return false;
  }
  const auto ratios = Map(As<T>(t), As<T>(g), [](T a, T b) {
    const T divisor =
        b == 0 ? static_cast<T>(kZeroGoldenDivisor) : std::fabs(b);
    return std::fabs(a - b) / divisor;
  });
  if (!AllAtMost(SumLanes(ratios), kSquaresHigh<T>)) return false;

  AddTo(state.target_squares, tt);
  AddTo(state.golden_squares, gg);
  AddTo(state.products, SumLanes(Map(t, g, times)));
  AddTo(state.difference_squares, dd);
  AddTo(state.differences, SumLanes(d));
  AddTo(state.ratios, SumLanes(ratios));
  for (size_t i = 0; i < kBlockElements; ++i) {
    state.max_ratio = std::max(state.max_ratio, static_cast<double>(ratios[i]));
    if (t[i] != g[i]) ++state.mismatch_count;
    OfferDifference(t[i], g[i], state.count + i, state);
  }
  state.NeedArithmetic(std::is_same_v<T, float> && FloatRows(tt, gg)
                           ? Arithmetic::kFloat
                           : Arithmetic::kDouble);
  if (!state.softmax.defined) return true;
  if (std::is_same_v<T, float> && FloatSoftmax(tt, gg, state.softmax)) {
    SoftmaxBlock(As<T>(t), As<T>(g), kBlockElements, state.softmax);
  } else {
    SoftmaxBlock(t, g, kBlockElements, state.softmax);
  }
  return true;
}

// Replaces pairs with a side that is not finite by zeros, and counts them.
void Clear(std::array<double, kBlockElements>& target,
           std::array<double, kBlockElements>& golden, PairState& state) {
  for (size_t i = 0; i < kBlockElements; ++i) {
    double& t = target[i];
    double& g = golden[i];
    if (std::isfinite(t) && std::isfinite(g)) continue;
    const bool agree = t == g || (std::isnan(t) && std::isnan(g));
    ++state.cleared_count;
    state.mismatch_count += agree ? 0 : 1;
    state.nan_mismatch_count += std::isnan(t) != std::isnan(g) ? 1 : 0;
    const bool infinity = std::isinf(t) || std::isinf(g);
    state.infinity_mismatch_count += infinity && !agree ? 1 : 0;
    state.softmax.defined = false;
    state.NeedArithmetic(Arithmetic::kCareful);
    t = 0;
    g = 0;
  }
}

void AnyPairs(const std::byte* target, const std::byte* golden, size_t count,
              PairState& state) {
  std::array<double, kBlockElements> t = {};
  std::array<double, kBlockElements> g = {};
  for (size_t i = 0; i < count; ++i) {
    t[i] = ReferenceElement(state.target, target, i);
    g[i] = ReferenceElement(state.golden, golden, i);
  }
  Clear(t, g, state);
  if (count == kBlockElements) {
    if (state.as_float && PairBlock<float>(t, g, state)) return;
    if (!state.as_float && PairBlock<double>(t, g, state)) return;
  }
  state.NeedArithmetic(Arithmetic::kCareful);
  double t_copy[kBlockElements];
  double g_copy[kBlockElements];
  std::copy(t.begin(), t.end(), t_copy);
  std::copy(g.begin(), g.end(), g_copy);
  AddPairCarefully(t_copy, g_copy, count, state);
  if (state.softmax.defined) SoftmaxBlock(t, g, count, state.softmax);
}

}  // namespace

void ReferencePairKernel(const std::byte* target, const std::byte* golden,
                         size_t count, PairState& state) {
  const size_t target_step = kBlockElements * ElementBytes(state.target);
  const size_t golden_step = kBlockElements * ElementBytes(state.golden);
  while (count != 0) {
    const size_t now = std::min(count, kBlockElements);
    AnyPairs(target, golden, now, state);
    state.count += now;
    count -= now;
    target += target_step;
    golden += golden_step;
  }
}

}  // namespace msitd::compute
