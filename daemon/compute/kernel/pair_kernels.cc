// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/pair_kernels.h"

#include <cstring>
#include <limits>

#include "daemon/compute/kernel/pair_reference.h"
#include "protos/base/dtype.h"
#include "protos/compute/kernel/kernels.h"
#include "protos/compute/kernel/prefetch.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/compute/kernel/pair_kernels.cc"
// The order matters: from here on this file is compiled once for every target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/fold-inl.h"
#include "protos/compute/kernel/loaders-inl.h"
#include "daemon/compute/kernel/decode-inl.h"
#include "daemon/compute/kernel/softmax-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace {

// How a pair is measured. Blocks of 128 elements are decoded to float if float
// holds both dtypes exactly, and to double otherwise. AddPairBlock is the fast
// path: it takes all sums of a block over its virtual lanes (lane_sum.h) and
// adds them to the running sums; then it takes the softmax. It looks for the
// place of the largest difference only if the block has a new one. It refuses a
// block with elements that are not finite, or with magnitudes that overflow or
// vanish when squared; all checks come before the first change. AddAnyBlock
// takes what was refused: it replaces elements that are not finite by zeros and
// tries the fast path again, and as a last resort scales the block in double.
// Elements behind the last whole block are scaled in double, too.

// Loads elements of T as double.
template <typename T, class D64>
HWY_INLINE hn::Vec<D64> LoadDouble(D64 d64, const std::byte* bytes) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return LoadAt(d64, bytes);
  } else {
    return hn::PromoteTo(d64, LoadAs<T>(d64, bytes));
  }
}

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

// Sums products and differences in double. Returns false if an element is not
// finite, or if squares overflow or vanish.
template <typename T>
HWY_INLINE bool SumProducts(const std::byte* target, const std::byte* golden,
                            double max_difference, ProductSums& out) {
  const BlockTag<double> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto high = hn::Set(d, kSquaresHigh<double>);
  const auto low = hn::Set(d, kSquaresLow<double>);
  const auto soft = hn::Set(d, kSoftmaxFloatSquaresMax);
  auto within = hn::Eq(zero, zero);
  auto softmax = within;
  const auto none = hn::Lt(zero, zero);
  auto t_enough = none, g_enough = none, d_enough = none, d_some = none;
  auto t_any = zero, g_any = zero;
  auto largest = zero, squares_max = zero, golden_max = zero;
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto tt = zero, gg = zero, tg = zero, dd = zero, ds = zero;
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t offset = (row * kVirtualLanes + lane) * sizeof(T);
      const auto t = LoadDouble<T>(d, target + offset);
      const auto g = LoadDouble<T>(d, golden + offset);
      const auto difference = hn::Abs(hn::Sub(t, g));
      tt = hn::Add(tt, hn::Mul(t, t));
      gg = hn::Add(gg, hn::Mul(g, g));
      tg = hn::Add(tg, hn::Mul(t, g));
      dd = hn::Add(dd, hn::Mul(difference, difference));
      ds = hn::Add(ds, difference);
      largest = hn::Max(largest, difference);
      if constexpr (sizeof(T) == sizeof(double)) {
        t_any = hn::Or(t_any, t);
        g_any = hn::Or(g_any, g);
      }
    }
    // The comparisons of tt and gg fail for NaN. Where they hold, dd is no NaN.
    within = hn::And(within, hn::And(hn::Le(tt, high), hn::Le(gg, high)));
    softmax = hn::And(softmax, hn::And(hn::Le(tt, soft), hn::Le(gg, soft)));
    golden_max = hn::Max(golden_max, gg);
    squares_max = hn::Max(squares_max, hn::Max(tt, gg));
    if constexpr (sizeof(T) == sizeof(double)) {
      within = hn::And(within, hn::Le(dd, high));
      t_enough = hn::Or(t_enough, hn::Ge(tt, low));
      g_enough = hn::Or(g_enough, hn::Ge(gg, low));
      d_enough = hn::Or(d_enough, hn::Ge(dd, low));
      d_some = hn::Or(d_some, hn::Ne(ds, zero));
    }
    hn::Store(tt, d, out.tt + lane);
    hn::Store(gg, d, out.gg + lane);
    hn::Store(tg, d, out.tg + lane);
    hn::Store(dd, d, out.dd + lane);
    hn::Store(ds, d, out.d + lane);
  }
  if (!hn::AllTrue(d, within)) return false;
  if constexpr (sizeof(T) == sizeof(double)) {
    const auto vanishes = [&](auto enough, auto some) HWY_ATTR {
      return hn::AllFalse(d, enough) && !hn::AllFalse(d, some);
    };
    if (vanishes(t_enough, hn::Ne(hn::Abs(t_any), zero)) ||
        vanishes(g_enough, hn::Ne(hn::Abs(g_any), zero)) ||
        vanishes(d_enough, d_some)) {
      return false;
    }
  }
  out.larger = !hn::AllFalse(d, hn::Gt(largest, hn::Set(d, max_difference)));
  out.float_softmax = hn::AllTrue(d, softmax);
  out.arithmetic =
      sizeof(T) == sizeof(double)
          ? Arithmetic::kDouble
          : RowArithmetic(d, out.float_softmax, golden_max, squares_max);
  return true;
}

// What stays in registers from block to block.
template <class D>
struct PairRunning {
  hn::Vec<D> max_ratio;
  // Counted downwards.
  hn::Vec<hn::RebindToSigned<D>> mismatches;
};

// Sums |t - g| / |g| of finite pairs and counts those that differ. If a sum
// comes near the end of the range, returns false and leaves `running` alone.
template <class D>
HWY_INLINE bool SumRatios(D d, const std::byte* target, const std::byte* golden,
                          hn::TFromD<D> (&out)[kVirtualLanes],
                          PairRunning<D>& running) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto divisor_at_zero = hn::Set(d, static_cast<T>(kZeroGoldenDivisor));
  PairRunning<D> next = running;
  auto within = hn::Eq(zero, zero);
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto sum = zero;
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t offset = (row * kVirtualLanes + lane) * sizeof(T);
      const auto t = LoadAt(d, target + offset);
      const auto g = LoadAt(d, golden + offset);
      const auto divisor =
          hn::IfThenElse(hn::Eq(g, zero), divisor_at_zero, hn::Abs(g));
      const auto ratio = hn::Div(hn::Abs(hn::Sub(t, g)), divisor);
      sum = hn::Add(sum, ratio);
      next.max_ratio = hn::Max(next.max_ratio, ratio);
      next.mismatches =
          hn::Add(next.mismatches,
                  hn::VecFromMask(di, hn::RebindMask(di, hn::Ne(t, g))));
    }
    within = hn::And(within, hn::Le(sum, hn::Set(d, kSquaresHigh<T>)));
    hn::Store(sum, d, out + lane);
  }
  if (!hn::AllTrue(d, within)) return false;
  running = next;
  return true;
}

// Whether |t - g| is above `bound` somewhere.
HWY_NOINLINE bool AnyDifferenceAbove(double bound, const std::byte* target,
                                     const std::byte* golden) {
  const BlockTag<double> d;
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < kBlockElements; i += hn::MaxLanes(d)) {
    const auto t = LoadDouble<float>(d, target + i * sizeof(float));
    const auto g = LoadDouble<float>(d, golden + i * sizeof(float));
    largest = hn::Max(largest, hn::Abs(hn::Sub(t, g)));
  }
  return !hn::AllFalse(d, hn::Gt(largest, hn::Set(d, bound)));
}

// A quick test in float. Rounding is monotonic, so false means that no |t - g|
// is above `bound`; true means that one may be.
template <class D>
HWY_INLINE bool MaybeAbove(D d, double bound, hn::Vec<D> largest) {
  constexpr float kMax = std::numeric_limits<float>::max();
  if (bound < 0) return true;
  const float near = bound < kMax ? static_cast<float>(bound) : kMax;
  return !hn::AllFalse(d, hn::And(hn::Ge(largest, hn::Set(d, near)),
                                  hn::Gt(largest, hn::Zero(d))));
}

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

// SumProducts and SumRatios in one pass. Sets `ratios_serve` to false, and
// leaves `running` alone, if SumRatios has to take the ratios: a golden element
// may be zero.
template <class D>
HWY_INLINE bool SumFloatPairs(D d, const std::byte* target,
                              const std::byte* golden, ProductSums& out,
                              float (&ratios)[kVirtualLanes],
                              bool& ratios_serve, PairRunning<D>& running,
                              PairState& state) {
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kHalf = kLanes / 2;
  const hn::Rebind<double, hn::Half<D>> d64;
  const auto zero = hn::Zero(d64);
  auto max_ratio = running.max_ratio;
  size_t mismatches = 0;
  auto largest = hn::Zero(d);
  auto ratios_within = hn::Eq(largest, largest);
  auto squares = zero;
  auto squares_max = zero;
  auto golden_max = zero;
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    ProductLanes<decltype(hn::Zero(d64))> low = {zero, zero, zero, zero, zero};
    auto high = low;
    auto ratio_sum = hn::Zero(d);
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const size_t at = (row * kVirtualLanes + lane) * sizeof(float);
      constexpr size_t kHalfBytes = kHalf * sizeof(float);
      AddProducts(d64, target + at, golden + at, low);
      AddProducts(d64, target + at + kHalfBytes, golden + at + kHalfBytes,
                  high);
      const auto t = LoadAt(d, target + at);
      const auto g = LoadAt(d, golden + at);
      const auto difference = hn::Abs(hn::Sub(t, g));
      const auto ratio = hn::Div(difference, hn::Abs(g));
      largest = hn::Max(largest, difference);
      ratio_sum = hn::Add(ratio_sum, ratio);
      max_ratio = hn::Max(max_ratio, ratio);
      mismatches += hn::CountTrue(d, hn::Ne(t, g));
    }
    ratios_within = hn::And(ratios_within,
                            hn::Le(ratio_sum, hn::Set(d, kSquaresHigh<float>)));
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
    hn::Store(ratio_sum, d, ratios + lane);
  }
  const auto finite = hn::Le(squares, hn::Set(d64, kSquaresHigh<double>));
  if (HWY_UNLIKELY(!hn::AllTrue(d64, finite))) return false;
  out.float_softmax = hn::AllTrue(
      d64, hn::Le(squares_max, hn::Set(d64, kSoftmaxFloatSquaresMax)));
  out.arithmetic =
      RowArithmetic(d64, out.float_softmax, golden_max, squares_max);
  out.larger = MaybeAbove(d, state.max_difference, largest) &&
               AnyDifferenceAbove(state.max_difference, target, golden);
  ratios_serve = hn::AllTrue(d, ratios_within);
  if (HWY_LIKELY(ratios_serve)) {
    running.max_ratio = max_ratio;
    state.mismatch_count += mismatches;
  }
  return true;
}

template <typename T>
HWY_NOINLINE void OfferBlock(const std::byte* target, const std::byte* golden,
                             PairState& state) {
  for (size_t i = 0; i < kBlockElements; ++i) {
    T t;
    T g;
    hwy::CopyBytes<sizeof(T)>(target + i * sizeof(T), &t);
    hwy::CopyBytes<sizeof(T)>(golden + i * sizeof(T), &g);
    OfferDifference(static_cast<double>(t), static_cast<double>(g),
                    state.count + i, state);
  }
}

HWY_NOINLINE void AddSoftmaxDouble(const std::byte* target,
                                   const std::byte* golden,
                                   const double* weights, SoftmaxState& state) {
  AddSoftmax(BlockTag<double>(), target, golden, weights, state);
}

template <typename T>
HWY_INLINE void AddSoftmaxBlock(const std::byte* target,
                                const std::byte* golden, bool float_serves,
                                PairState& state) {
  SoftmaxState& softmax = state.softmax;
  if (!softmax.defined) return;
  if constexpr (sizeof(T) == sizeof(double)) {
    AddSoftmaxDouble(target, golden, nullptr, softmax);
  } else {
    const auto near = [](double exponent) {
      return -kSoftmaxFloatExponentMax <= exponent &&
             exponent <= kSoftmaxFloatExponentMax;
    };
    if (HWY_LIKELY(float_serves && near(softmax.golden_exponent) &&
                   near(softmax.target_exponent))) {
      AddSoftmax(BlockTag<float>(), target, golden, nullptr, softmax);
      return;
    }
    Decoded<double> t;
    Decoded<double> g;
    Decode(DType::kFloat32, target, t);
    Decode(DType::kFloat32, golden, g);
    AddSoftmaxDouble(t.bytes(), g.bytes(), nullptr, softmax);
  }
}

// The fast path. Changes nothing and returns false if it cannot take the block.
template <class D>
HWY_INLINE bool AddPairBlock(D d, const std::byte* target,
                             const std::byte* golden, PairRunning<D>& running,
                             PairState& state) {
  using T = hn::TFromD<D>;
  ProductSums products;
  alignas(64) T ratios[kVirtualLanes];
  bool ratios_serve = false;
  if constexpr (sizeof(T) == sizeof(float) && hn::MaxLanes(d) > 1) {
    if (HWY_UNLIKELY(!SumFloatPairs(d, target, golden, products, ratios,
                                    ratios_serve, running, state))) {
      return false;
    }
  } else {
    if (HWY_UNLIKELY(
            !SumProducts<T>(target, golden, state.max_difference, products))) {
      return false;
    }
  }
  if (!ratios_serve && !SumRatios(d, target, golden, ratios, running)) {
    return false;
  }
  AddLanes(products.tt, state.target_squares);
  AddLanes(products.gg, state.golden_squares);
  AddLanes(products.tg, state.products);
  AddLanes(products.dd, state.difference_squares);
  AddLanes(products.d, state.differences);
  AddLanes(ratios, state.ratios);
  if (HWY_UNLIKELY(products.larger)) OfferBlock<T>(target, golden, state);
  state.NeedArithmetic(products.arithmetic);
  AddSoftmaxBlock<T>(target, golden, products.float_softmax, state);
  return true;
}

// Takes a block of any values.
template <typename T>
HWY_NOINLINE void AddAnyBlock(Decoded<T>& target, Decoded<T>& golden,
                              PairRunning<BlockTag<T>>& running,
                              PairState& state) {
  state.NeedArithmetic(Arithmetic::kCareful);
  if (ClearNonFinite(target.element, golden.element, state) &&
      AddPairBlock(BlockTag<T>(), target.bytes(), golden.bytes(), running,
                   state)) {
    return;
  }
  Decoded<double> t;
  Decoded<double> g;
  for (size_t i = 0; i < kBlockElements; ++i) {
    t.element[i] = static_cast<double>(target.element[i]);
    g.element[i] = static_cast<double>(golden.element[i]);
  }
  AddPairCarefully(t.element, g.element, kBlockElements, state);
  if (state.softmax.defined) {
    AddSoftmaxDouble(t.bytes(), g.bytes(), nullptr, state.softmax);
  }
}

// Takes the elements behind the last whole block, in double.
HWY_NOINLINE void AddRest(const std::byte* target, const std::byte* golden,
                          size_t count, PairState& state) {
  state.NeedArithmetic(Arithmetic::kCareful);
  Decoded<double> t = {};
  Decoded<double> g = {};
  ToDouble(state.target, target, count, t.element);
  ToDouble(state.golden, golden, count, g.element);
  ClearNonFinite(t.element, g.element, state);
  AddPairCarefully(t.element, g.element, count, state);
  if (!state.softmax.defined) return;
  // Copies of the first element fill the block, for they cannot move the
  // references. Weights of 0 keep them out of the sums.
  alignas(64) double weights[kBlockElements];
  for (size_t i = 0; i < kBlockElements; ++i) {
    weights[i] = i < count ? 1 : 0;
    if (i < count) continue;
    t.element[i] = t.element[0];
    g.element[i] = g.element[0];
  }
  AddSoftmaxDouble(t.bytes(), g.bytes(), weights, state.softmax);
}

template <class D>
HWY_INLINE void Store(D d, const PairRunning<D>& running, PairState& state) {
  const hn::RebindToSigned<D> di;
  alignas(64) hn::TFromD<decltype(di)> mismatches[hn::MaxLanes(d)];
  hn::Store(running.mismatches, di, mismatches);
  for (const auto mismatch : mismatches) {
    state.mismatch_count -= static_cast<uint64_t>(int64_t{mismatch});
  }
  const double max_ratio = MaxOf(d, running.max_ratio);
  if (max_ratio > state.max_ratio) state.max_ratio = max_ratio;
}

template <typename T>
HWY_NOINLINE void AddPairBlocks(const std::byte* target,
                                const std::byte* golden, size_t blocks,
                                PairState& state) {
  const BlockTag<T> d;
  const hn::RebindToSigned<BlockTag<T>> di;
  PairRunning<BlockTag<T>> running = {hn::Zero(d), hn::Zero(di)};
  const size_t target_step = kBlockElements * ElementBytes(state.target);
  const size_t golden_step = kBlockElements * ElementBytes(state.golden);
  Decoded<T> target_buffer;
  Decoded<T> golden_buffer;
  for (size_t i = 0; i < blocks; ++i) {
    PrefetchAhead(target, target_step);
    PrefetchAhead(golden, golden_step);
    const auto* t = BlockAs(state.target, target, target_buffer);
    const auto* g = BlockAs(state.golden, golden, golden_buffer);
    if (HWY_UNLIKELY(!AddPairBlock(d, t, g, running, state))) {
      // Buffers that already hold the block are decoded again: this is rare.
      Decode(state.target, target, target_buffer);
      Decode(state.golden, golden, golden_buffer);
      AddAnyBlock(target_buffer, golden_buffer, running, state);
    }
    state.count += kBlockElements;
    target += target_step;
    golden += golden_step;
  }
  Store(d, running, state);
}

void AddPairs(const std::byte* target, const std::byte* golden, size_t count,
              PairState& state) {
  // Mismatches are counted in lanes of 32 bits, which this many blocks cannot
  // overflow.
  constexpr size_t kBlocksPerCall = size_t{1} << 20;
  size_t blocks = count / kBlockElements;
  while (blocks > 0) {
    const size_t now = blocks < kBlocksPerCall ? blocks : kBlocksPerCall;
    if (state.as_float) {
      AddPairBlocks<float>(target, golden, now, state);
    } else {
      AddPairBlocks<double>(target, golden, now, state);
    }
    target += now * kBlockElements * ElementBytes(state.target);
    golden += now * kBlockElements * ElementBytes(state.golden);
    blocks -= now;
  }
  const size_t rest = count % kBlockElements;
  if (rest == 0) return;
  AddRest(target, golden, rest, state);
  state.count += rest;
}

}  // namespace
}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msitd::compute {

HWY_EXPORT(AddPairs);

PairKernel PairKernelOf(int64_t target) {
  if (target == kReferenceTarget) return ReferencePairKernel;
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return HWY_DISPATCH_TABLE(AddPairs)[chosen.GetIndex()];
}

PairKernel ChosenPairKernel() {
  static const PairKernel chosen = PairKernelOf(ChosenKernels().target);
  return chosen;
}

}  // namespace msitd::compute
#endif  // HWY_ONCE
