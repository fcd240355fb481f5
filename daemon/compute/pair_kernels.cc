// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_kernels.h"

#include <cstring>

#include "daemon/compute/element.h"
#include "daemon/compute/lane_sum.h"
#include "daemon/compute/prefetch.h"
#include "protos/base/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/compute/pair_kernels.cc"
// The order matters: from here on this file is compiled once for every target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "daemon/compute/fold-inl.h"
#include "daemon/compute/loaders-inl.h"
#include "daemon/compute/softmax-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace {

template <typename T>
using BlockTag = hn::CappedTag<T, kVirtualLanes>;

// Elements of a block as T, which is exact for `component`, or double.
template <typename T>
struct Decoded {
  alignas(64) T element[kBlockElements];

  const std::byte* bytes() const {
    return reinterpret_cast<const std::byte*>(element);
  }
};

template <typename T>
HWY_NOINLINE void Decode(DType component, const std::byte* bytes,
                         Decoded<T>& out) {
  const BlockTag<T> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  WithLoader(component, [&](auto loader) HWY_ATTR {
    using Loader = decltype(loader);
    using From = typename Loader::Arithmetic;
    if constexpr (sizeof(From) == sizeof(T)) {
      for (size_t i = 0; i < kBlockElements; i += kLanes) {
        hn::Store(Loader::Load(d, bytes + i * Loader::kBytes), d,
                  out.element + i);
      }
    } else if constexpr (sizeof(From) < sizeof(T)) {
      const hn::Rebind<From, BlockTag<T>> from;
      for (size_t i = 0; i < kBlockElements; i += kLanes) {
        hn::Store(
            hn::PromoteTo(d, Loader::Load(from, bytes + i * Loader::kBytes)), d,
            out.element + i);
      }
    }
  });
}

// One side of a block as T, from where it lies if it can be.
template <typename T>
HWY_INLINE const std::byte* BlockAs(DType component, const std::byte* bytes,
                                    Decoded<T>& buffer) {
  constexpr DType kOwn =
      sizeof(T) == sizeof(float) ? DType::kFloat32 : DType::kFloat64;
  if (component == kOwn) return bytes;
  Decode(component, bytes, buffer);
  return buffer.bytes();
}

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
  // Whether |t - g| is larger somewhere than anything before.
  bool larger;
  // Whether float serves for the softmax.
  bool float_softmax;
};

// Sums products and differences in double; false if an element is not finite,
// or if squares overflow or vanish.
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
  auto largest = zero;
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
    // The first two fail for NaN; with them the third is finite or too large.
    within = hn::And(within, hn::And(hn::Le(tt, high), hn::Le(gg, high)));
    softmax = hn::And(softmax, hn::And(hn::Le(tt, soft), hn::Le(gg, soft)));
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
  return true;
}

// What stays in registers from block to block.
template <class D>
struct PairRunning {
  hn::Vec<D> max_ratio;
  // Counted downwards.
  hn::Vec<hn::RebindToSigned<D>> mismatches;
};

// Sums |t - g| / |g| of finite pairs and counts differing ones; changes
// nothing and returns false if a sum comes near the end of the range.
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

// Takes a block that the fast path serves; otherwise changes nothing and
// returns false.
template <class D>
HWY_INLINE bool AddPairBlock(D d, const std::byte* target,
                             const std::byte* golden, PairRunning<D>& running,
                             PairState& state) {
  using T = hn::TFromD<D>;
  ProductSums products;
  if (HWY_UNLIKELY(
          !SumProducts<T>(target, golden, state.max_difference, products))) {
    return false;
  }
  alignas(64) T ratios[kVirtualLanes];
  if (HWY_UNLIKELY(!SumRatios(d, target, golden, ratios, running))) {
    return false;
  }
  AddLanes(products.tt, state.target_squares);
  AddLanes(products.gg, state.golden_squares);
  AddLanes(products.tg, state.products);
  AddLanes(products.dd, state.difference_squares);
  AddLanes(products.d, state.differences);
  AddLanes(ratios, state.ratios);
  if (HWY_UNLIKELY(products.larger)) OfferBlock<T>(target, golden, state);
  AddSoftmaxBlock<T>(target, golden, products.float_softmax, state);
  return true;
}

// Takes the elements of a block as T, any values.
template <typename T>
HWY_NOINLINE void AddAnyBlock(Decoded<T>& target, Decoded<T>& golden,
                              PairRunning<BlockTag<T>>& running,
                              PairState& state) {
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
  Decoded<double> t = {};
  Decoded<double> g = {};
  ToDouble(state.target, target, count, t.element);
  ToDouble(state.golden, golden, count, g.element);
  ClearNonFinite(t.element, g.element, state);
  AddPairCarefully(t.element, g.element, count, state);
  if (!state.softmax.defined) return;
  // Repeated elements cannot move the references; weights take them out.
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
  // Mismatches are counted in lanes of 32 bits, which these many blocks cannot
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
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return HWY_DISPATCH_TABLE(AddPairs)[chosen.GetIndex()];
}

}  // namespace msitd::compute
#endif  // HWY_ONCE
