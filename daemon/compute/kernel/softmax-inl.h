// SPDX-License-Identifier: Apache-2.0

// Per-target softmax sums of a block. Included once for every target, hence
// the toggled guard.
//
// Sums of e^x are finite only relative to a reference near the largest element,
// which is not known before the end. The usual way rescales the sums whenever a
// larger element comes. Here the reference is a power of two, so that rescaling
// rounds nothing, and it moves only when an element exceeds it by more than
// kSoftmaxHeadroom powers of two, so that most blocks are read once.
// SoftmaxState says what is summed.
#if defined(MSITD_DAEMON_COMPUTE_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_DAEMON_COMPUTE_SOFTMAX_INL_H_
#undef MSITD_DAEMON_COMPUTE_SOFTMAX_INL_H_
#else
#define MSITD_DAEMON_COMPUTE_SOFTMAX_INL_H_
#endif

#include <cstddef>

#include "daemon/compute/kernel/exponential.h"
#include "daemon/compute/kernel/pair_state.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/fold-inl.h"
#include "protos/compute/kernel/loaders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x = k ln 2 + r with a whole k. In float, `k` has kRound added: then its last
// bits are k as an integer, which leaves the adders to the sums.
template <class V>
struct Reduced {
  V k;
  V r;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Reduced<V> Reduce(D d, V x) {
  using T = hn::TFromD<D>;
  using E = Exponential<T>;
  const auto round = hn::Set(d, E::kRound);
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto rounded = hn::Add(hn::Mul(x, hn::Set(d, E::kLog2E)), round);
    const auto k = hn::Sub(rounded, round);
    // The product is exact, so fused and separate operations are the same.
    const auto high = hn::NegMulAdd(k, hn::Set(d, E::kLn2High), x);
    return {rounded, hn::Sub(high, hn::Mul(k, hn::Set(d, E::kLn2Low)))};
  } else {
    const auto limit = hn::Set(d, kSoftmaxMagnitudeMax);
    x = hn::Min(hn::Max(x, hn::Neg(limit)), limit);
    const auto y = hn::Mul(x, hn::Set(d, E::kLog2E));
    const auto k = hn::IfThenElse(hn::Lt(hn::Abs(y), hn::Set(d, E::kRoundMax)),
                                  hn::Sub(hn::Add(y, round), round), y);
    const auto high = hn::Sub(x, hn::Mul(k, hn::Set(d, E::kLn2High)));
    const auto middle = hn::Sub(high, hn::Mul(k, hn::Set(d, E::kLn2Middle)));
    const auto r = hn::Sub(middle, hn::Mul(k, hn::Set(d, E::kLn2Low)));
    const auto most = hn::Set(d, E::kRemainderMax);
    return {k, hn::Min(hn::Max(r, hn::Neg(most)), most)};
  }
}

// 2^a for the whole a = k - exponent, at most kSoftmaxHeadroom; 0 where it
// would be subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ScaleOf(D d, V k, double exponent) {
  using T = hn::TFromD<D>;
  using E = Exponential<T>;
  if constexpr (sizeof(T) == sizeof(float)) {
    const hn::RebindToSigned<D> di;
    const auto offset =
        hn::Set(di, static_cast<int32_t>(E::kBias - exponent) - E::kRoundBits);
    const auto field =
        hn::Max(hn::Add(hn::BitCast(di, k), offset), hn::Zero(di));
    return hn::BitCast(d, hn::ShiftLeft<E::kMantissaBits>(field));
  } else {
    const hn::RebindToUnsigned<D> du;
    const auto a = hn::Sub(k, hn::Set(d, exponent));
    const auto whole = hn::Max(hn::Add(a, hn::Set(d, E::kWhole + E::kBias)),
                               hn::Set(d, E::kWhole));
    return hn::BitCast(d,
                       hn::ShiftLeft<E::kMantissaBits>(hn::BitCast(du, whole)));
  }
}

// e^r times `scale`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOf(D d, V r, V scale) {
  using T = hn::TFromD<D>;
  using E = Exponential<T>;
  // Summing even and odd powers apart halves the chain of dependent operations.
  const auto square = hn::Mul(r, r);
  auto even = hn::Set(d, E::kEven[E::kEvenTerms - 1]);
  for (size_t i = E::kEvenTerms - 1; i-- > 0;) {
    even = hn::Add(hn::Mul(even, square), hn::Set(d, E::kEven[i]));
  }
  auto odd = hn::Set(d, E::kOdd[E::kOddTerms - 1]);
  for (size_t i = E::kOddTerms - 1; i-- > 0;) {
    odd = hn::Add(hn::Mul(odd, square), hn::Set(d, E::kOdd[i]));
  }
  const auto series = hn::Add(even, hn::Mul(odd, r));
  const auto power =
      hn::Add(hn::Add(hn::Mul(series, square), r), hn::Set(d, T{1}));
  return hn::Mul(power, scale);
}

template <class D>
HWY_INLINE double MaxOf(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  alignas(64) T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  T max = lanes[0];
  for (size_t i = 1; i < hn::MaxLanes(d); ++i) {
    if (lanes[i] > max) max = lanes[i];
  }
  return static_cast<double>(max);
}

// The elements of one side of a block, as Reduced.
template <typename T>
struct ReducedBlock {
  alignas(64) T k[kBlockElements];
  alignas(64) T r[kBlockElements];
};

// Splits a block. Returns the largest k of each lane.
template <class D, typename T>
HWY_INLINE hn::Vec<D> ReduceBlock(D d, const std::byte* bytes,
                                  ReducedBlock<T>& out) {
  constexpr bool kFloat = sizeof(T) == sizeof(float);
  const hn::RebindToSigned<D> di;
  auto max = hn::Neg(hn::Inf(d));
  auto max_bits = hn::Zero(di);
  for (size_t i = 0; i < kBlockElements; i += hn::MaxLanes(d)) {
    const auto x = Reduce(d, LoadAt(d, bytes + i * sizeof(T)));
    if constexpr (kFloat) {
      max_bits = hn::Max(max_bits, hn::BitCast(di, x.k));
    } else {
      max = hn::Max(max, x.k);
    }
    hn::Store(x.k, d, out.k + i);
    hn::Store(x.r, d, out.r + i);
  }
  if constexpr (kFloat) {
    max = hn::Sub(hn::BitCast(d, max_bits), hn::Set(d, Exponential<T>::kRound));
  }
  return max;
}

// k_golden - k_target, relative to the references.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V DifferenceOfExponents(D d, V golden_k, V target_k,
                                   double golden_exponent,
                                   double target_exponent) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == sizeof(float)) {
    // Whole numbers below 2^24, so every order gives the same.
    const auto moved =
        hn::Set(d, static_cast<T>(golden_exponent - target_exponent));
    return hn::Sub(hn::Sub(golden_k, target_k), moved);
  } else {
    return hn::Sub(hn::Sub(golden_k, hn::Set(d, golden_exponent)),
                   hn::Sub(target_k, hn::Set(d, target_exponent)));
  }
}

// Returns the reference that a block with these largest k needs: `exponent` if
// that serves, otherwise the largest of them.
template <class D>
HWY_INLINE double ReferenceFor(D d, hn::Vec<D> k, bool started,
                               double exponent) {
  using T = hn::TFromD<D>;
  const auto most = hn::Set(d, static_cast<T>(exponent + kSoftmaxHeadroom));
  if (HWY_LIKELY(started && hn::AllTrue(d, hn::Le(k, most)))) return exponent;
  return MaxOf(d, k);
}

// Adds a block to the sums if no element exceeds the references by more than
// the headroom. Otherwise, or before there are references, only moves them and
// returns false. `weights`: a factor for every element, or null for 1.
//
// Reduces the whole block first and keeps the result in memory. All operations
// on one element are a long chain, and a CPU that looks some 100 instructions
// ahead would otherwise overlap no more than two elements.
template <class D>
HWY_INLINE bool TryAddSoftmax(D d, const std::byte* target,
                              const std::byte* golden, const double* weights,
                              SoftmaxState& state) {
  using T = hn::TFromD<D>;
  constexpr size_t kLanes = hn::MaxLanes(d);
  ReducedBlock<T> t;
  ReducedBlock<T> g;
  const auto target_k = ReduceBlock(d, target, t);
  const auto golden_k = ReduceBlock(d, golden, g);
  const double target_exponent =
      ReferenceFor(d, target_k, state.started, state.target_exponent);
  const double golden_exponent =
      ReferenceFor(d, golden_k, state.started, state.golden_exponent);
  if (HWY_UNLIKELY(!state.started || target_exponent != state.target_exponent ||
                   golden_exponent != state.golden_exponent)) {
    MoveReferences(golden_exponent, target_exponent, state);
    return false;
  }
  alignas(64) T golden_sums[kVirtualLanes];
  alignas(64) T target_sums[kVirtualLanes];
  alignas(64) T weighted_sums[kVirtualLanes];
  const auto ln2 = hn::Set(d, Exponential<T>::kLn2);
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto golden_sum = hn::Zero(d);
    auto target_sum = hn::Zero(d);
    auto weighted_sum = hn::Zero(d);
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t i = row * kVirtualLanes + lane;
      const auto g_k = hn::Load(d, g.k + i);
      const auto t_k = hn::Load(d, t.k + i);
      const auto g_r = hn::Load(d, g.r + i);
      const auto t_r = hn::Load(d, t.r + i);
      auto g_power = PowerOf(d, g_r, ScaleOf(d, g_k, golden_exponent));
      auto t_power = PowerOf(d, t_r, ScaleOf(d, t_k, target_exponent));
      if constexpr (sizeof(T) == sizeof(double)) {
        if (weights != nullptr) {
          const auto weight = hn::LoadU(d, weights + i);
          g_power = hn::Mul(g_power, weight);
          t_power = hn::Mul(t_power, weight);
        }
      }
      const auto exponents =
          DifferenceOfExponents(d, g_k, t_k, golden_exponent, target_exponent);
      const auto difference =
          hn::Add(hn::Mul(ln2, exponents), hn::Sub(g_r, t_r));
      golden_sum = hn::Add(golden_sum, g_power);
      target_sum = hn::Add(target_sum, t_power);
      weighted_sum = hn::Add(weighted_sum, hn::Mul(g_power, difference));
    }
    hn::Store(golden_sum, d, golden_sums + lane);
    hn::Store(target_sum, d, target_sums + lane);
    hn::Store(weighted_sum, d, weighted_sums + lane);
  }
  AddLanes(golden_sums, state.golden);
  AddLanes(target_sums, state.target);
  AddLanes(weighted_sums, state.weighted);
  return true;
}

template <class D>
HWY_INLINE void AddSoftmax(D d, const std::byte* target,
                           const std::byte* golden, const double* weights,
                           SoftmaxState& state) {
  if (TryAddSoftmax(d, target, golden, weights, state)) return;
  TryAddSoftmax(d, target, golden, weights, state);
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_DAEMON_COMPUTE_SOFTMAX_INL_H_
