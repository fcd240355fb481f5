// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/pair_kernels.h"

#include <cstring>
#include <limits>
#include <type_traits>

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
#include "daemon/compute/kernel/float_pairs-inl.h"
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

template <typename T>
using LoaderOf =
    std::conditional_t<sizeof(T) == sizeof(float), LoadFloat32, LoadFloat64>;

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

// The fast path for elements that `Loader` loads as T; its arithmetic is T. If
// it is not LoadFloat32 or LoadFloat64, `decoded` gets them. Changes nothing
// else and returns false if it cannot take the block.
template <class Loader, class D, typename T = hn::TFromD<D>>
HWY_INLINE bool AddPairBlock(D d, const std::byte* target,
                             const std::byte* golden, DecodedPair<T>& decoded,
                             PairRunning<D>& running, PairState& state) {
  ProductSums products;
  alignas(64) T ratios[kVirtualLanes];
  bool ratios_serve = false;
  PairRunning<D> next = running;
  if constexpr (sizeof(T) == sizeof(float) && hn::MaxLanes(d) > 1) {
    hn::Vec<D> largest;
    const auto sum_ratios = [&]() HWY_ATTR {
      SumFloatRatios<Loader>(d, target, golden, decoded, ratios, ratios_serve,
                             next, largest);
    };
    constexpr bool kDecodes = !std::is_same_v<Loader, LoadFloat32>;
    if constexpr (kDecodes) {
      sum_ratios();
      target = decoded.target.bytes();
      golden = decoded.golden.bytes();
    }
    if (HWY_UNLIKELY(!SumFloatProducts(d, target, golden, products))) {
      return false;
    }
    if constexpr (!kDecodes) sum_ratios();
    products.larger = MaybeAbove(d, state.max_difference, largest) &&
                      AnyDifferenceAbove(state.max_difference, target, golden);
  } else {
    if (HWY_UNLIKELY(
            !SumProducts<T>(target, golden, state.max_difference, products))) {
      return false;
    }
  }
  if (!ratios_serve && !SumRatios(d, target, golden, ratios, next)) {
    return false;
  }
  running = next;
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
HWY_NOINLINE void AddAnyBlock(DecodedPair<T>& pair,
                              PairRunning<BlockTag<T>>& running,
                              PairState& state) {
  Decoded<T>& target = pair.target;
  Decoded<T>& golden = pair.golden;
  state.NeedArithmetic(Arithmetic::kCareful);
  if (ClearNonFinite(target.element, golden.element, state) &&
      AddPairBlock<LoaderOf<T>>(BlockTag<T>(), target.bytes(), golden.bytes(),
                                pair, running, state)) {
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

// Takes whole blocks. `Loader` loads the elements of both sides, or those that
// Decode leaves if `kDecodes` is true.
template <class Loader, bool kDecodes>
HWY_NOINLINE void AddPairBlocks(const std::byte* target,
                                const std::byte* golden, size_t blocks,
                                PairState& state) {
  using T = typename Loader::Arithmetic;
  const BlockTag<T> d;
  const hn::RebindToSigned<BlockTag<T>> di;
  PairRunning<BlockTag<T>> running = {hn::Zero(d), hn::Zero(di)};
  const size_t target_step = kBlockElements * ElementBytes(state.target);
  const size_t golden_step = kBlockElements * ElementBytes(state.golden);
  DecodedPair<T> decoded;
  for (size_t i = 0; i < blocks; ++i) {
    PrefetchAhead(target, target_step);
    PrefetchAhead(golden, golden_step);
    const std::byte* t = target;
    const std::byte* g = golden;
    if constexpr (kDecodes) {
      t = BlockAs(state.target, target, decoded.target);
      g = BlockAs(state.golden, golden, decoded.golden);
    }
    if (HWY_UNLIKELY(!AddPairBlock<Loader>(d, t, g, decoded, running, state))) {
      // Buffers that already hold the block are decoded again: this is rare.
      Decode(state.target, target, decoded.target);
      Decode(state.golden, golden, decoded.golden);
      AddAnyBlock(decoded, running, state);
    }
    state.count += kBlockElements;
    target += target_step;
    golden += golden_step;
  }
  Store(d, running, state);
}

void AddWholePairs(const std::byte* target, const std::byte* golden,
                   size_t blocks, PairState& state) {
  if (!state.as_float) {
    return AddPairBlocks<LoadFloat64, true>(target, golden, blocks, state);
  }
  if (state.target == state.golden) {
    switch (state.target) {
      case DType::kFloat32:
        return AddPairBlocks<LoadFloat32, false>(target, golden, blocks, state);
#if HWY_TARGET != HWY_SCALAR
      case DType::kBfloat16:
        return AddPairBlocks<LoadBfloat16, false>(target, golden, blocks,
                                                  state);
      case DType::kFloat16:
        return AddPairBlocks<LoadFloat16, false>(target, golden, blocks, state);
#endif
      default:
        break;
    }
  }
  AddPairBlocks<LoadFloat32, true>(target, golden, blocks, state);
}

void AddPairs(const std::byte* target, const std::byte* golden, size_t count,
              PairState& state) {
  // Mismatches are counted in lanes of 32 bits, which this many blocks cannot
  // overflow.
  constexpr size_t kBlocksPerCall = size_t{1} << 20;
  size_t blocks = count / kBlockElements;
  while (blocks > 0) {
    const size_t now = blocks < kBlocksPerCall ? blocks : kBlocksPerCall;
    AddWholePairs(target, golden, now, state);
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
