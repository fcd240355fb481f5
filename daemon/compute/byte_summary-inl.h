// SPDX-License-Identifier: Apache-2.0

// Per-target summary of integers of one byte. Included once for every target,
// hence the toggled guard.
#if defined(MSITD_DAEMON_COMPUTE_BYTE_SUMMARY_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_DAEMON_COMPUTE_BYTE_SUMMARY_INL_H_
#undef MSITD_DAEMON_COMPUTE_BYTE_SUMMARY_INL_H_
#else
#define MSITD_DAEMON_COMPUTE_BYTE_SUMMARY_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "daemon/compute/lane_sum.h"
#include "daemon/compute/summary_state.h"
#include "hwy/highway.h"

// The scalar target has no vectors to sum bytes in.
#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<uint8_t, 64>;

// Blocks taken between two looks at the sums: 128 vectors, few enough for
// counters of eight bits and for squares in lanes of 32 bits.
inline constexpr size_t kByteBlocksPerRound = hn::MaxLanes(ByteTag());

template <class D>
HWY_INLINE uint64_t TotalOf(D d, hn::Vec<D> v) {
  alignas(64) hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  uint64_t total = 0;
  for (const auto lane : lanes) total += static_cast<uint64_t>(lane);
  return total;
}

// What a round gives: sums of x, as stored in eight bits without a sign, of
// |x| and of x^2, and the zeros.
struct ByteSums {
  uint64_t sum = 0;
  uint64_t l1 = 0;
  uint64_t squares = 0;
  uint64_t zeros = 0;
};

// Sums `count` bytes, a multiple of kBlockElements and at most
// kByteBlocksPerRound blocks. Signed ones come as x + 128 in `sum`.
template <bool kSigned>
HWY_INLINE void AddByteRound(const std::byte* bytes, size_t count, int& min,
                             int& max, ByteSums& out) {
  const ByteTag d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<int16_t, decltype(d)> d16;
  const hn::Repartition<int32_t, decltype(d)> d32;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const hn::Half<decltype(d)> half;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  const auto sign = hn::Set(d, kSigned ? uint8_t{0x80} : uint8_t{0});
  auto low = hn::Set(d, uint8_t{255});
  auto high = zero;
  auto zeros = zero;
  auto sum = hn::Zero(d64);
  auto l1 = hn::Zero(d64);
  auto squares = hn::Zero(d32);
  auto squares_rest = hn::Zero(d32);
  for (size_t i = 0; i < count; i += kLanes) {
    const auto x = hn::LoadU(d, reinterpret_cast<const uint8_t*>(bytes + i));
    // In the order of the numbers, from 0.
    const auto ordered = hn::Xor(x, sign);
    low = hn::Min(low, ordered);
    high = hn::Max(high, ordered);
    zeros = hn::Sub(zeros, hn::VecFromMask(d, hn::Eq(x, zero)));
    sum = hn::Add(sum, hn::SumsOf8(ordered));
    auto magnitude = x;
    if constexpr (kSigned) {
      magnitude = hn::BitCast(d, hn::Abs(hn::BitCast(di, x)));
    }
    l1 = hn::Add(l1, hn::SumsOf8(magnitude));
    const auto lower = hn::PromoteTo(d16, hn::LowerHalf(half, magnitude));
    const auto upper = hn::PromoteTo(d16, hn::UpperHalf(half, magnitude));
    squares =
        hn::ReorderWidenMulAccumulate(d32, lower, lower, squares, squares_rest);
    squares =
        hn::ReorderWidenMulAccumulate(d32, upper, upper, squares, squares_rest);
  }
  out.sum += TotalOf(d64, sum);
  out.l1 += TotalOf(d64, l1);
  out.squares += TotalOf(d32, hn::Add(squares, squares_rest));
  out.zeros += TotalOf(d64, hn::SumsOf8(zeros));
  alignas(64) uint8_t lanes[kLanes];
  hn::Store(low, d, lanes);
  for (const uint8_t lane : lanes) min = lane < min ? lane : min;
  hn::Store(high, d, lanes);
  for (const uint8_t lane : lanes) max = lane > max ? lane : max;
}

// Adds whole blocks of int8 or uint8. All sums are whole numbers below 2^53,
// which doubles hold exactly in whatever order, so the bits are those of the
// other paths.
template <bool kSigned>
HWY_NOINLINE void AddByteBlocks(const std::byte* bytes, size_t blocks,
                                SummaryState& state) {
  ByteSums sums;
  int min = 255;
  int max = 0;
  for (size_t block = 0; block < blocks;) {
    const size_t now = blocks - block < kByteBlocksPerRound
                           ? blocks - block
                           : kByteBlocksPerRound;
    AddByteRound<kSigned>(bytes + block * kBlockElements, now * kBlockElements,
                          min, max, sums);
    block += now;
  }
  const double offset = kSigned ? 128 : 0;
  const double shift = offset * static_cast<double>(blocks * kBlockElements);
  const auto add = [](double value, LaneSum& lanes) {
    const double block[kFoldLanes] = {value};
    lanes.Add(block, 0);
  };
  add(static_cast<double>(sums.sum) - shift, state.sum);
  add(static_cast<double>(sums.l1), state.l1);
  add(static_cast<double>(sums.squares), state.squares);
  state.zero_count += sums.zeros;
  if (min - offset < state.min) state.min = min - offset;
  if (max - offset > state.max) state.max = max - offset;
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // MSITD_DAEMON_COMPUTE_BYTE_SUMMARY_INL_H_
