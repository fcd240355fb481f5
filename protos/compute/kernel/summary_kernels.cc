// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/summary_kernels.h"

#include "protos/compute/kernel/prefetch.h"
#include "protos/compute/number/lane_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "protos/compute/kernel/summary_kernels.cc"
// The order matters: from here on this file is compiled once for every target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/byte_summary-inl.h"
#include "protos/compute/kernel/fold-inl.h"
#include "protos/compute/kernel/loaders-inl.h"
#include "protos/compute/kernel/packed_summary-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace {

// State that stays in registers between blocks.
template <class D>
struct Running {
  using V = hn::Vec<D>;
  using VI = hn::Vec<hn::RebindToSigned<D>>;
  V min;
  V max;
  // Zeros, counted downwards.
  VI zeros;
};

// Takes a block whose elements are finite and whose squares neither overflow
// nor vanish; otherwise changes nothing and returns false.
template <class Loader, class D>
HWY_INLINE bool AddBlock(D d, const std::byte* bytes, Running<D>& running,
                         SummaryState& state) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto no_bits = hn::Zero(di);
  alignas(64) T sums[kVirtualLanes];
  alignas(64) T l1s[kVirtualLanes];
  alignas(64) T squares[kVirtualLanes];
  Running<D> next = running;
  // Negated comparisons would let NaN pass.
  auto within = hn::Eq(zero, zero);
  auto enough = hn::Lt(zero, zero);
  auto some = enough;
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto sum = zero;
    auto l1 = zero;
    auto square = zero;
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const auto x = Loader::Load(
          d, bytes + (row * kVirtualLanes + lane) * Loader::kBytes);
      next.min = hn::Min(next.min, x);
      next.max = hn::Max(next.max, x);
      // Compared as integers, for lack of ports for floats.
      const auto magnitude = hn::Abs(x);
      next.zeros = hn::Add(
          next.zeros,
          hn::VecFromMask(di, hn::Eq(hn::BitCast(di, magnitude), no_bits)));
      sum = AddByMultiplier(d, sum, x);
      l1 = AddByMultiplier(d, l1, magnitude);
      square = hn::Add(square, hn::Mul(x, x));
    }
    within = hn::And(within, hn::Le(square, hn::Set(d, kSquaresHigh<T>)));
    enough = hn::Or(enough, hn::Ge(square, hn::Set(d, kSquaresLow<T>)));
    some = hn::Or(some, hn::Ne(l1, zero));
    hn::Store(sum, d, sums + lane);
    hn::Store(l1, d, l1s + lane);
    hn::Store(square, d, squares + lane);
  }
  if (HWY_UNLIKELY(!hn::AllTrue(d, within))) return false;
  if (HWY_UNLIKELY(hn::AllFalse(d, enough) && !hn::AllFalse(d, some))) {
    return false;
  }
  AddLanes(sums, state.sum);
  AddLanes(l1s, state.l1);
  AddLanes(squares, state.squares);
  running = next;
  return true;
}

// The total of lanes that count downwards.
template <class DI>
HWY_INLINE uint64_t CountOf(DI di, hn::Vec<DI> counter) {
  alignas(64) hn::TFromD<DI> lanes[hn::MaxLanes(di)];
  hn::Store(counter, di, lanes);
  int64_t total = 0;
  for (const auto lane : lanes) total -= lane;
  return static_cast<uint64_t>(total);
}

template <class D>
HWY_INLINE void Store(D d, const Running<D>& running, SummaryState& state) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr size_t kLanes = hn::MaxLanes(d);
  alignas(64) T min[kLanes];
  alignas(64) T max[kLanes];
  hn::Store(running.min, d, min);
  hn::Store(running.max, d, max);
  for (size_t i = 0; i < kLanes; ++i) {
    const double low = static_cast<double>(min[i]);
    const double high = static_cast<double>(max[i]);
    if (low < state.min) state.min = low;
    if (high > state.max) state.max = high;
  }
  state.zero_count += CountOf(di, running.zeros);
}

// Takes a block of any values, in double, of a dtype that is exact in float.
// AddCarefully gives the same bits, one element at a time.
template <class Loader>
HWY_NOINLINE void AddAnyBlock(const std::byte* bytes, SummaryState& state) {
  using D = hn::CappedTag<double, kVirtualLanes>;
  const D d;
  const hn::Rebind<float, D> from;
  const hn::RebindToSigned<D> di;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto infinity = hn::Inf(d);
  alignas(64) double sums[kVirtualLanes];
  alignas(64) double l1s[kVirtualLanes];
  alignas(64) double squares[kVirtualLanes];
  auto min = infinity;
  auto max = hn::Neg(infinity);
  // Counted downwards.
  auto zeros = hn::Zero(di), nans = zeros, above = zeros, below = zeros;
  const auto count = [&](auto& counter, auto mask) HWY_ATTR {
    counter = hn::Add(counter, hn::VecFromMask(di, hn::RebindMask(di, mask)));
  };
  for (size_t lane = 0; lane < kVirtualLanes; lane += kLanes) {
    auto sum = zero, l1 = zero, square = zero;
    for (size_t row = 0; row < kRowsPerBlock; ++row) {
      const auto x = hn::PromoteTo(
          d, Loader::Load(
                 from, bytes + (row * kVirtualLanes + lane) * Loader::kBytes));
      const auto nan = hn::IsNaN(x);
      count(nans, nan);
      count(zeros, hn::Eq(x, zero));
      count(above, hn::Eq(x, infinity));
      count(below, hn::Eq(x, hn::Neg(infinity)));
      min = hn::Min(min, hn::IfThenElse(nan, infinity, x));
      max = hn::Max(max, hn::IfThenElse(nan, hn::Neg(infinity), x));
      const auto finite = hn::IfThenElseZero(hn::Lt(hn::Abs(x), infinity), x);
      sum = hn::Add(sum, finite);
      l1 = hn::Add(l1, hn::Abs(finite));
      square = hn::Add(square, hn::Mul(finite, finite));
    }
    hn::Store(sum, d, sums + lane);
    hn::Store(l1, d, l1s + lane);
    hn::Store(square, d, squares + lane);
  }
  AddLanes(sums, state.sum);
  AddLanes(l1s, state.l1);
  AddLanes(squares, state.squares);
  state.nan_count += CountOf(di, nans);
  state.positive_infinity_count += CountOf(di, above);
  state.negative_infinity_count += CountOf(di, below);
  Store(d, Running<D>{min, max, zeros}, state);
}

template <class Loader>
HWY_NOINLINE void AddBlocks(DType component, const std::byte* bytes,
                            size_t blocks, SummaryState& state) {
  using T = typename Loader::Arithmetic;
  const hn::CappedTag<T, kVirtualLanes> d;
  const hn::RebindToSigned<decltype(d)> di;
  Running<hn::CappedTag<T, kVirtualLanes>> running = {
      hn::Inf(d), hn::Neg(hn::Inf(d)), hn::Zero(di)};
  for (size_t i = 0; i < blocks; ++i) {
    const std::byte* block = bytes + i * kBlockElements * Loader::kBytes;
    PrefetchAhead(block, kBlockElements * Loader::kBytes);
    if (HWY_UNLIKELY(!AddBlock<Loader>(d, block, running, state))) {
      if constexpr (sizeof(T) == sizeof(float)) {
        AddAnyBlock<Loader>(block, state);
      } else {
        AddCarefully(component, block, kBlockElements, state);
      }
    }
  }
  Store(d, running, state);
}

#if MSITD_PACKED_SUMMARY
// Takes whole blocks; both loaders are of one dtype.
template <class Packed, class Loader>
HWY_NOINLINE void AddBlocks(const std::byte* bytes, size_t blocks,
                            SummaryState& state) {
  AddPackedBlocks<Packed>(
      bytes, blocks, state, [&](const std::byte* block) HWY_ATTR {
        AddBlocks<Loader>(Packed::kComponent, block, 1, state);
      });
}
#endif

void AddWholeBlocks(DType component, const std::byte* bytes, size_t blocks,
                    SummaryState& state) {
#if HWY_TARGET != HWY_SCALAR
  if (component == DType::kInt8) {
    return AddByteBlocks<true>(bytes, blocks, state);
  }
  if (component == DType::kUint8) {
    return AddByteBlocks<false>(bytes, blocks, state);
  }
#endif
#if MSITD_PACKED_SUMMARY
  switch (component) {
    case DType::kBfloat16:
      return AddBlocks<PackedBfloat16, LoadBfloat16>(bytes, blocks, state);
    case DType::kFloat16:
      return AddBlocks<PackedFloat16, LoadFloat16>(bytes, blocks, state);
    case DType::kFloat8E4m3fn:
      return AddBlocks<PackedFloat8<true>, LoadFloat8E4m3fn>(bytes, blocks,
                                                             state);
    case DType::kFloat8E5m2:
      return AddBlocks<PackedFloat8<false>, LoadFloat8E5m2>(bytes, blocks,
                                                            state);
    default:
      break;
  }
#endif
  WithLoader(component, [&](auto loader) HWY_ATTR {
    AddBlocks<decltype(loader)>(component, bytes, blocks, state);
  });
}

void AddElements(DType component, const std::byte* bytes, size_t count,
                 SummaryState& state) {
  // Zeros are counted in lanes of 32 bits, which this many blocks cannot
  // overflow.
  constexpr size_t kBlocksPerCall = size_t{1} << 20;
  state.count += count;
  const size_t element_bytes = ElementBytes(component);
  size_t blocks = count / kBlockElements;
  while (blocks > 0) {
    const size_t now = blocks < kBlocksPerCall ? blocks : kBlocksPerCall;
    AddWholeBlocks(component, bytes, now, state);
    bytes += now * kBlockElements * element_bytes;
    blocks -= now;
  }
  const size_t rest = count % kBlockElements;
  if (rest != 0) AddCarefully(component, bytes, rest, state);
}

}  // namespace
}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msitd::compute {

namespace {

// Like the table of HWY_EXPORT, but without the first entry that detects the
// CPU, which would require Highway's library.
constexpr SummaryKernel kKernels[] = {nullptr,
#ifdef HWY_CHOOSE_TARGET_LIST
                                      HWY_CHOOSE_TARGET_LIST(AddElements),
#endif
                                      HWY_CHOOSE_FALLBACK(AddElements)};

}  // namespace

SummaryKernel SummaryKernelOf(int64_t target) {
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return kKernels[chosen.GetIndex()];
}

}  // namespace msitd::compute
#endif  // HWY_ONCE
