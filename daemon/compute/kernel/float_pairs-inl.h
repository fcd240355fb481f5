// SPDX-License-Identifier: Apache-2.0

// Per-target sums over a block of pairs of floats. Included once for every
// target, hence the toggled guard.
//
// A block is read twice: once for the ratios and extremes, in float, and once
// for the products, in double. One pass over both would need more registers
// than most targets have.
#if defined(MSITD_DAEMON_COMPUTE_FLOAT_PAIRS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_DAEMON_COMPUTE_FLOAT_PAIRS_INL_H_
#undef MSITD_DAEMON_COMPUTE_FLOAT_PAIRS_INL_H_
#else
#define MSITD_DAEMON_COMPUTE_FLOAT_PAIRS_INL_H_
#endif

#include <cstddef>
#include <type_traits>

#include "daemon/compute/kernel/decode-inl.h"
#include "daemon/compute/kernel/pair_state.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/loaders-inl.h"
#include "protos/compute/number/lane_sum.h"

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loads elements of T as double.
template <typename T, class D64>
HWY_INLINE hn::Vec<D64> LoadDouble(D64 d64, const std::byte* bytes) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return LoadAt(d64, bytes);
  } else {
    return hn::PromoteTo(d64, LoadAs<T>(d64, bytes));
  }
}

// Both sides of a block as T.
template <typename T>
struct DecodedPair {
  Decoded<T> target;
  Decoded<T> golden;
};

// Sums over the virtual lanes of one block.
struct ProductSums {
  alignas(64) double tt[kVirtualLanes];
  alignas(64) double gg[kVirtualLanes];
  alignas(64) double tg[kVirtualLanes];
  alignas(64) double dd[kVirtualLanes];
  alignas(64) double d[kVirtualLanes];
  // True if some |t - g| is larger than all before this block.
  bool larger;
  // True if the softmax can be taken in float.
  bool float_softmax;
  // What serves for the sums of rows and channels.
  Arithmetic arithmetic;
};

// Returns whether float serves for the sums of rows, from the largest sums of
// squares of a block.
template <class D64, class V = hn::Vec<D64>>
HWY_INLINE Arithmetic RowArithmetic(D64 d64, bool float_softmax,
                                    V golden_squares, V squares) {
  const auto low = hn::Set(d64, kFloatRowSquaresMin);
  static_assert(kFloatRowSquaresMax == kSoftmaxFloatSquaresMax);
  const bool serves =
      float_softmax && (!hn::AllFalse(d64, hn::Ge(golden_squares, low)) ||
                        hn::AllTrue(d64, hn::Eq(squares, hn::Zero(d64))));
  return serves ? Arithmetic::kFloat : Arithmetic::kDouble;
}

// What stays in registers from block to block.
template <class D>
struct PairRunning {
  hn::Vec<D> max_ratio;
  // Counted downwards.
  hn::Vec<hn::RebindToSigned<D>> mismatches;
};

// Sums of half a vector of floats, which becomes one vector of doubles.
template <class V>
struct ProductLanes {
  V tt, gg, tg, dd, d;
};

// Products of two floats are exact in double, so that fused and separate
// additions round alike.
template <class D64, class V = hn::Vec<D64>>
HWY_INLINE void AddProducts(D64 d64, const std::byte* target,
                            const std::byte* golden, ProductLanes<V>& sums) {
  const auto t = LoadDouble<float>(d64, target);
  const auto g = LoadDouble<float>(d64, golden);
  const auto difference = hn::Sub(t, g);
  sums.tt = hn::MulAdd(t, t, sums.tt);
  sums.gg = hn::MulAdd(g, g, sums.gg);
  sums.tg = hn::MulAdd(t, g, sums.tg);
  sums.dd = hn::Add(sums.dd, hn::Mul(difference, difference));
  sums.d = hn::Add(sums.d, hn::Abs(difference));
}

// Sums products and differences of a block of floats. Returns false if an
// element is not finite.
template <class D>
HWY_INLINE bool SumFloatProducts(D d, const std::byte* target,
                                 const std::byte* golden, ProductSums& out) {
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kHalf = kLanes / 2;
  constexpr size_t kHalfBytes = kHalf * sizeof(float);
  const hn::Rebind<double, hn::Half<D>> d64;
  const auto zero = hn::Zero(d64);
  auto squares = zero;
  auto squares_max = zero;
  auto golden_max = zero;
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    ProductLanes<decltype(hn::Zero(d64))> low = {zero, zero, zero, zero, zero};
    auto high = low;
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t at = (row * kVirtualLanes + lane) * sizeof(float);
      AddProducts(d64, target + at, golden + at, low);
      AddProducts(d64, target + at + kHalfBytes, golden + at + kHalfBytes,
                  high);
    }
    // A sum keeps NaN, a maximum need not.
    squares = hn::Add(
        squares, hn::Add(hn::Add(low.tt, high.tt), hn::Add(low.gg, high.gg)));
    golden_max = hn::Max(golden_max, hn::Max(low.gg, high.gg));
    squares_max =
        hn::Max(squares_max, hn::Max(hn::Max(low.tt, high.tt), golden_max));
    const auto store = [&](auto v0, auto v1, double* lanes) HWY_ATTR {
      hn::Store(v0, d64, lanes + lane);
      hn::Store(v1, d64, lanes + lane + kHalf);
    };
    store(low.tt, high.tt, out.tt);
    store(low.gg, high.gg, out.gg);
    store(low.tg, high.tg, out.tg);
    store(low.dd, high.dd, out.dd);
    store(low.d, high.d, out.d);
  }
  const auto finite = hn::Le(squares, hn::Set(d64, kSquaresHigh<double>));
  if (HWY_UNLIKELY(!hn::AllTrue(d64, finite))) return false;
  out.float_softmax = hn::AllTrue(
      d64, hn::Le(squares_max, hn::Set(d64, kSoftmaxFloatSquaresMax)));
  out.arithmetic =
      RowArithmetic(d64, out.float_softmax, golden_max, squares_max);
  return true;
}

// SumRatios for a block that `Loader` loads as float; `decoded` has the loaded
// elements of both sides, unless they are float already. Sets `ratios_serve` to
// false, and leaves `running` alone, if SumRatios has to take the ratios: a
// golden element may be zero, or an element is not finite. Otherwise sets
// `largest` to the largest |t - g|.
//
// Finite magnitudes are ordered like their bits. Taken as integers, their
// maxima and comparisons leave the adders to the sums.
template <class Loader, class D>
HWY_INLINE void SumFloatRatios(D d, const std::byte* target,
                               const std::byte* golden,
                               DecodedPair<float>& decoded,
                               float (&ratios)[kVirtualLanes],
                               bool& ratios_serve, PairRunning<D>& running,
                               hn::Vec<D>& largest) {
  constexpr size_t kLanes = hn::MaxLanes(d);
  const hn::RebindToSigned<D> di;
  const auto no_bits = hn::Zero(di);
  auto max_ratio = hn::BitCast(di, running.max_ratio);
  auto mismatches = running.mismatches;
  auto largest_bits = no_bits;
  auto within = hn::Eq(hn::Zero(d), hn::Zero(d));
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto sum = hn::Zero(d);
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t i = row * kVirtualLanes + lane;
      const auto t = Loader::Load(d, target + i * Loader::kBytes);
      const auto g = Loader::Load(d, golden + i * Loader::kBytes);
      if constexpr (!std::is_same_v<Loader, LoadFloat32>) {
        hn::Store(t, d, decoded.target.element + i);
        hn::Store(g, d, decoded.golden.element + i);
      }
      const auto difference = hn::Abs(hn::Sub(t, g));
      const auto ratio = hn::Div(difference, hn::Abs(g));
      const auto bits = hn::BitCast(di, difference);
      largest_bits = hn::Max(largest_bits, bits);
      sum = hn::Add(sum, ratio);
      max_ratio = hn::Max(max_ratio, hn::BitCast(di, ratio));
      mismatches =
          hn::Add(mismatches, hn::VecFromMask(di, hn::Gt(bits, no_bits)));
    }
    within = hn::And(within, hn::Le(sum, hn::Set(d, kSquaresHigh<float>)));
    hn::Store(sum, d, ratios + lane);
  }
  largest = hn::BitCast(d, largest_bits);
  ratios_serve = hn::AllTrue(d, within);
  if (HWY_LIKELY(ratios_serve)) {
    running.max_ratio = hn::BitCast(d, max_ratio);
    running.mismatches = mismatches;
  }
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_DAEMON_COMPUTE_FLOAT_PAIRS_INL_H_
