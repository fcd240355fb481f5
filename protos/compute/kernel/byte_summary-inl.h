// SPDX-License-Identifier: Apache-2.0

// Per-target summary of integers of one byte. Sums bytes as integers, in narrow
// lanes that are widened after every round, before they can overflow. Included
// once for every target, hence the toggled guard.
#if defined(MSITD_PROTOS_COMPUTE_BYTE_SUMMARY_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_PROTOS_COMPUTE_BYTE_SUMMARY_INL_H_
#undef MSITD_PROTOS_COMPUTE_BYTE_SUMMARY_INL_H_
#else
#define MSITD_PROTOS_COMPUTE_BYTE_SUMMARY_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "protos/compute/kernel/prefetch.h"
#include "protos/compute/kernel/summary_state.h"
#include "protos/compute/number/lane_sum.h"

// The scalar target has no vectors to sum bytes in.
#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<uint8_t, 64>;

// Blocks of one round: 128 vectors, few enough for counters of eight bits and
// for squares in lanes of 32 bits.
inline constexpr size_t kByteBlocksPerRound = hn::MaxLanes(ByteTag());

template <class D>
HWY_INLINE uint64_t TotalOf(D d, hn::Vec<D> v) {
  alignas(64) hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  uint64_t total = 0;
  for (const auto lane : lanes) total += static_cast<uint64_t>(lane);
  return total;
}

// The total of lanes of 32 bits, in lanes of 64.
template <class D64, class V32>
HWY_INLINE hn::Vec<D64> Widened(D64 d64, V32 v) {
  const auto pairs = hn::BitCast(d64, v);
  const auto low = hn::And(pairs, hn::Set(d64, uint64_t{0xffffffff}));
  return hn::Add(low, hn::ShiftRight<32>(pairs));
}

// State that stays in registers between rounds. `low`, `high` and `sum` are of
// x, or of x + 128 if x is signed. `l1` is of |x| and `squares` of x^2.
struct ByteSums {
  using D = ByteTag;
  using D64 = hn::Repartition<uint64_t, D>;
  hn::Vec<D> low;
  hn::Vec<D> high;
  hn::Vec<D64> sum;
  hn::Vec<D64> l1;
  hn::Vec<D64> squares;
  hn::Vec<D64> zeros;
};

// Sums `count` bytes, a multiple of kBlockElements and at most
// kByteBlocksPerRound blocks.
template <bool kSigned>
HWY_INLINE void AddByteRound(const std::byte* bytes, size_t count,
                             ByteSums& sums) {
  const ByteTag d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<uint16_t, decltype(d)> du16;
  const hn::RebindToSigned<decltype(du16)> d16;
  const hn::Repartition<int32_t, decltype(d)> d32;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto sign = hn::Set(d, kSigned ? uint8_t{0x80} : uint8_t{0});
  const auto low_byte = hn::Set(du16, uint16_t{0xff});
  ByteSums next = sums;
  auto zeros = zero;
  auto squares = hn::Zero(d32);
  auto squares_rest = hn::Zero(d32);
  const auto add = [&](const std::byte* at) HWY_ATTR {
    const auto x = hn::LoadU(d, reinterpret_cast<const uint8_t*>(at));
    const auto ordered = hn::Xor(x, sign);
    next.low = hn::Min(next.low, ordered);
    next.high = hn::Max(next.high, ordered);
    zeros = hn::Sub(zeros, hn::VecFromMask(d, hn::Eq(x, zero)));
    next.sum = hn::Add(next.sum, hn::SumsOf8(ordered));
    auto magnitude = x;
    if constexpr (kSigned) {
      magnitude = hn::BitCast(d, hn::Abs(hn::BitCast(di, x)));
    }
    next.l1 = hn::Add(next.l1, hn::SumsOf8(magnitude));
    // Splits even from odd bytes by a mask and a shift, because widening
    // crosses the halves of a vector.
    const auto pairs = hn::BitCast(du16, magnitude);
    const auto even = hn::BitCast(d16, hn::And(pairs, low_byte));
    const auto odd = hn::BitCast(d16, hn::ShiftRight<8>(pairs));
    squares =
        hn::ReorderWidenMulAccumulate(d32, even, even, squares, squares_rest);
    squares =
        hn::ReorderWidenMulAccumulate(d32, odd, odd, squares, squares_rest);
  };
  static_assert(kBlockElements % kCacheLineBytes == 0 && kLanes >= 16);
  for (size_t i = 0; i < count; i += kCacheLineBytes) {
    PrefetchAhead(bytes + i, kCacheLineBytes);
    add(bytes + i);
    if constexpr (kLanes < 64) add(bytes + i + kLanes);
    if constexpr (kLanes < 32) {
      add(bytes + i + 2 * kLanes);
      add(bytes + i + 3 * kLanes);
    }
  }
  next.zeros = hn::Add(next.zeros, hn::SumsOf8(zeros));
  next.squares =
      hn::Add(next.squares, Widened(d64, hn::Add(squares, squares_rest)));
  sums = next;
}

// Adds whole blocks of int8 or uint8. All sums are whole numbers below 2^53.
// Doubles add those exactly in any order, so the bits are those of the other
// paths.
template <bool kSigned>
HWY_NOINLINE void AddByteBlocks(const std::byte* bytes, size_t blocks,
                                SummaryState& state) {
  const ByteTag d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto none = hn::Zero(d64);
  ByteSums sums = {
      hn::Set(d, uint8_t{255}), hn::Zero(d), none, none, none, none};
  for (size_t block = 0; block < blocks;) {
    const size_t now = blocks - block < kByteBlocksPerRound
                           ? blocks - block
                           : kByteBlocksPerRound;
    AddByteRound<kSigned>(bytes + block * kBlockElements, now * kBlockElements,
                          sums);
    block += now;
  }
  const double offset = kSigned ? 128 : 0;
  const double shift = offset * static_cast<double>(blocks * kBlockElements);
  const auto add = [](double value, LaneSum& lanes) {
    const double block[kFoldLanes] = {value};
    lanes.Add(block, 0);
  };
  add(static_cast<double>(TotalOf(d64, sums.sum)) - shift, state.sum);
  add(static_cast<double>(TotalOf(d64, sums.l1)), state.l1);
  add(static_cast<double>(TotalOf(d64, sums.squares)), state.squares);
  state.zero_count += TotalOf(d64, sums.zeros);
  alignas(64) uint8_t lanes[hn::MaxLanes(d)];
  hn::Store(sums.low, d, lanes);
  for (const uint8_t lane : lanes) {
    if (lane - offset < state.min) state.min = lane - offset;
  }
  hn::Store(sums.high, d, lanes);
  for (const uint8_t lane : lanes) {
    if (lane - offset > state.max) state.max = lane - offset;
  }
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // MSITD_PROTOS_COMPUTE_BYTE_SUMMARY_INL_H_
