// SPDX-License-Identifier: Apache-2.0

// Per-target summary of floats of one or two bytes. Included once for every
// target, hence the toggled guard.
//
// Memory is processed in rounds of 4 KiB, each read twice. The first pass works
// on the bits, with many elements in a vector. It finds the extremes as
// integers, checks whether all elements are finite, and counts zeros only if
// there are any. The second pass converts to float and sums one block at a
// time. The general path takes the blocks of a round that is not all finite,
// and any block whose squares overflow or vanish.
#if defined(MSITD_PROTOS_COMPUTE_PACKED_SUMMARY_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_PROTOS_COMPUTE_PACKED_SUMMARY_INL_H_
#undef MSITD_PROTOS_COMPUTE_PACKED_SUMMARY_INL_H_
#else
#define MSITD_PROTOS_COMPUTE_PACKED_SUMMARY_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "protos/compute/kernel/fold-inl.h"
#include "protos/compute/kernel/prefetch.h"
#include "protos/compute/kernel/summary_state.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

// A vector of 32 bytes holds one or two rows of 16 virtual lanes.
#undef MSITD_PACKED_SUMMARY
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define MSITD_PACKED_SUMMARY 1
#else
#define MSITD_PACKED_SUMMARY 0
#endif

#if MSITD_PACKED_SUMMARY

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using PackedLane = hn::CappedTag<float, 8>;
using PackedLanes = hn::Vec<PackedLane>;
inline constexpr size_t kPackedVectorBytes = 32;
// Bytes of one round: a multiple of a block of every dtype here, and small
// enough for the first-level cache and for counters of eight bits.
inline constexpr size_t kPackedRoundBytes = size_t{4} << 10;
static_assert(kPackedRoundBytes / kPackedVectorBytes <= 255);

template <typename Bits>
inline constexpr Bits kSignBit = static_cast<Bits>(Bits{1}
                                                   << (8 * sizeof(Bits) - 1));

// Sums of one block over its 16 virtual lanes, in two vectors each. The loader
// decides which lane is where.
struct PackedSums {
  PackedLanes sum[2];
  PackedLanes l1[2];
  PackedLanes squares[2];
};

template <bool kExactSquares>
HWY_INLINE void AddPacked(PackedLanes x, PackedSums& sums, size_t half) {
  const PackedLane d;
  sums.sum[half] = AddByMultiplier(d, sums.sum[half], x);
  // Exact squares do not round, so fused and separate additions are the same.
  // Separate ones keep the multipliers busy enough.
  if constexpr (kExactSquares) {
    sums.l1[half] = hn::Add(sums.l1[half], hn::Abs(x));
    sums.squares[half] = hn::MulAdd(x, x, sums.squares[half]);
  } else {
    sums.l1[half] = hn::Add(sums.l1[half], hn::Abs(x));
    sums.squares[half] = hn::Add(sums.squares[half], hn::Mul(x, x));
  }
}

// A loader implements one dtype. Its members:
// Bits           an integer as wide as an element.
// kLargest       the bits of the largest finite magnitude.
// kScale         the factor by which the sums must be multiplied.
// kSquaresStayInRange
//                true if squares can neither overflow nor vanish in float.
// kRowsAtOnce    rows of virtual lanes that AddRows processes in one call.
// kStagedBytes   bytes per element that Stage writes in the first pass for
//                AddRows to read in the second, or 0 if AddRows reads the
//                elements where they lie.
struct PackedBfloat16 {
  using Bits = uint16_t;
  static constexpr DType kComponent = DType::kBfloat16;
  static constexpr Bits kLargest = 0x7f7f;
  static constexpr float kScale = 1;
  static constexpr bool kSquaresStayInRange = false;
  static constexpr size_t kStagedBytes = 0;
  static constexpr size_t kRowsAtOnce = 1;

  // Lanes 0-3 and 8-11; lanes 4-7 and 12-15.
  static HWY_INLINE void AddRows(const std::byte* block, size_t row,
                                 PackedSums& sums) {
    const hn::CappedTag<uint16_t, kVirtualLanes> d;
    const PackedLane lane;
    const auto zero = hn::Zero(d);
    const auto bits = hn::LoadU(
        d, reinterpret_cast<const uint16_t*>(block) + row * kVirtualLanes);
    AddPacked<false>(hn::BitCast(lane, hn::InterleaveLower(d, zero, bits)),
                     sums, 0);
    AddPacked<false>(hn::BitCast(lane, hn::InterleaveUpper(d, zero, bits)),
                     sums, 1);
  }
  static HWY_INLINE PackedLanes Fold(const PackedLanes (&v)[2]) {
    const PackedLane d;
    return hn::Add(hn::ConcatLowerLower(d, v[1], v[0]),
                   hn::ConcatUpperUpper(d, v[1], v[0]));
  }
};

// Loads eight halves from memory. From a register it would take another
// shuffle.
HWY_INLINE PackedLanes LoadHalves(const uint16_t* bits) {
  const hn::Rebind<hwy::float16_t, PackedLane> half;
  const hn::RebindToUnsigned<decltype(half)> half_bits;
  return hn::PromoteTo(PackedLane(),
                       hn::BitCast(half, hn::LoadU(half_bits, bits)));
}

struct PackedFloat16 {
  using Bits = uint16_t;
  static constexpr DType kComponent = DType::kFloat16;
  static constexpr Bits kLargest = 0x7bff;
  static constexpr float kScale = 1;
  static constexpr bool kSquaresStayInRange = true;
  static constexpr size_t kStagedBytes = 0;
  static constexpr size_t kRowsAtOnce = 1;

  // Lanes 0-7; lanes 8-15.
  static HWY_INLINE void AddRows(const std::byte* block, size_t row,
                                 PackedSums& sums) {
    const auto* at =
        reinterpret_cast<const uint16_t*>(block) + row * kVirtualLanes;
    AddPacked<true>(LoadHalves(at), sums, 0);
    AddPacked<true>(LoadHalves(at + 8), sums, 1);
  }
  static HWY_INLINE PackedLanes Fold(const PackedLanes (&v)[2]) {
    return hn::Add(v[0], v[1]);
  }
};

// Bytes become halves first, exactly; with kE4m3fn halves of the value / 256,
// which kScale makes good.
template <bool kE4m3fn>
struct PackedFloat8 {
  using Bits = uint8_t;
  static constexpr DType kComponent =
      kE4m3fn ? DType::kFloat8E4m3fn : DType::kFloat8E5m2;
  static constexpr Bits kLargest = kE4m3fn ? 0x7e : 0x7b;
  static constexpr float kScale = kE4m3fn ? 256 : 1;
  static constexpr bool kSquaresStayInRange = true;
  static constexpr size_t kStagedBytes = 2;
  static constexpr size_t kRowsAtOnce = 2;

  template <class D16, class V>
  static HWY_INLINE V HalfBits(D16 d, V high_byte) {
    if constexpr (!kE4m3fn) return high_byte;
    const hn::RebindToSigned<D16> di;
    const auto shifted =
        hn::BitCast(d, hn::ShiftRight<1>(hn::BitCast(di, high_byte)));
    return hn::And(shifted, hn::Set(d, uint16_t{0xbfff}));
  }

  // Two rows become lanes 0-7 of both, then lanes 8-15 of both.
  template <class D, class V>
  static HWY_INLINE void Stage(D d, V bits, std::byte* out) {
    const hn::Repartition<uint16_t, D> d16;
    const auto zero = hn::Zero(d);
    const auto lower = hn::BitCast(d16, hn::InterleaveLower(d, zero, bits));
    const auto upper = hn::BitCast(d16, hn::InterleaveUpper(d, zero, bits));
    auto* halves = reinterpret_cast<uint16_t*>(out);
    hn::Store(HalfBits(d16, lower), d16, halves);
    hn::Store(HalfBits(d16, upper), d16, halves + kVirtualLanes);
  }
  static HWY_INLINE void AddRows(const std::byte* staged, size_t row,
                                 PackedSums& sums) {
    const auto* at =
        reinterpret_cast<const uint16_t*>(staged) + row * kVirtualLanes;
    AddPacked<true>(LoadHalves(at), sums, 0);
    AddPacked<true>(LoadHalves(at + 8), sums, 0);
    AddPacked<true>(LoadHalves(at + kVirtualLanes), sums, 1);
    AddPacked<true>(LoadHalves(at + kVirtualLanes + 8), sums, 1);
  }
  static HWY_INLINE PackedLanes Fold(const PackedLanes (&v)[2]) {
    return hn::Add(v[0], v[1]);
  }
};

// Memory for the elements that a loader stages in one round.
template <class Loader>
struct PackedStage {
  static constexpr size_t kElements =
      kPackedRoundBytes / sizeof(typename Loader::Bits);
  alignas(64) std::byte bytes[kElements * Loader::kStagedBytes + 1];
};

// Extremes, found without converting, because the bits of a float are its sign
// and its magnitude. Taken as signed integers, the largest is the maximum if
// any element is positive. Taken as unsigned ones, the largest is the minimum
// if any element is negative. Otherwise the element closest to zero is.
template <class D>
struct PackedExtremes {
  hn::Vec<hn::RebindToSigned<D>> signed_max;
  hn::Vec<D> unsigned_max;
  // Twice the magnitude, which is what is left when the sign is shifted out.
  hn::Vec<D> magnitude_min;
};

template <class Loader, class D>
HWY_INLINE bool AllFinite(D d, const PackedExtremes<D>& extremes) {
  using Bits = typename Loader::Bits;
  constexpr auto kNegative =
      static_cast<Bits>(Loader::kLargest + kSignBit<Bits>);
  const hn::RebindToSigned<D> di;
  const auto positive =
      hn::BitCast(d, hn::Max(extremes.signed_max, hn::Zero(di)));
  const auto most = hn::Set(d, Bits{Loader::kLargest});
  const auto least = hn::Set(d, kNegative);
  return hn::AllTrue(
      d, hn::And(hn::Eq(hn::Max(positive, most), most),
                 hn::Eq(hn::Max(extremes.unsigned_max, least), least)));
}

// The first pass over a round: whole blocks, at most kPackedRoundBytes of them.
// If an element is not finite, returns false and changes nothing but `stage`.
template <class Loader, class D>
HWY_INLINE bool TakeExtremes(D d, const std::byte* bytes, size_t size,
                             PackedExtremes<D>& extremes, uint64_t& zero_count,
                             PackedStage<Loader>& stage) {
  using Bits = typename Loader::Bits;
  const hn::RebindToSigned<D> di;
  const auto zero = hn::Zero(d);
  PackedExtremes<D> next = extremes;
  next.magnitude_min = hn::Set(d, static_cast<Bits>(~Bits{0}));
  const auto load = [&](size_t at) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const Bits*>(bytes + at));
  };
  const auto take = [&](size_t at) HWY_ATTR {
    const auto bits = load(at);
    next.signed_max = hn::Max(next.signed_max, hn::BitCast(di, bits));
    next.unsigned_max = hn::Max(next.unsigned_max, bits);
    next.magnitude_min = hn::Min(next.magnitude_min, hn::Add(bits, bits));
    if constexpr (Loader::kStagedBytes != 0) {
      Loader::Stage(d, bits,
                    stage.bytes + at / sizeof(Bits) * Loader::kStagedBytes);
    }
  };
  for (size_t at = 0; at < size; at += 2 * kPackedVectorBytes) {
    take(at);
    take(at + kPackedVectorBytes);
  }
  if (HWY_UNLIKELY(!AllFinite<Loader>(d, next))) return false;
  if (!hn::AllFalse(d, hn::Eq(next.magnitude_min, zero))) {
    auto zeros = zero;
    for (size_t at = 0; at < size; at += kPackedVectorBytes) {
      const auto bits = load(at);
      zeros =
          hn::Sub(zeros, hn::VecFromMask(d, hn::Eq(hn::Add(bits, bits), zero)));
    }
    alignas(64) Bits counts[hn::MaxLanes(d)];
    hn::Store(zeros, d, counts);
    for (const Bits count : counts) zero_count += count;
  }
  next.magnitude_min = hn::Min(next.magnitude_min, extremes.magnitude_min);
  extremes = next;
  return true;
}

template <class Loader, class D>
HWY_INLINE void Store(D d, const PackedExtremes<D>& extremes,
                      SummaryState& state) {
  using Bits = typename Loader::Bits;
  constexpr Bits kSign = kSignBit<Bits>;
  constexpr size_t kLanes = hn::MaxLanes(d);
  alignas(64) Bits signed_max[kLanes];
  alignas(64) Bits unsigned_max[kLanes];
  alignas(64) Bits magnitude_min[kLanes];
  hn::Store(hn::BitCast(d, extremes.signed_max), d, signed_max);
  hn::Store(extremes.unsigned_max, d, unsigned_max);
  hn::Store(extremes.magnitude_min, d, magnitude_min);
  // Still the initial value: no round was all finite.
  if (magnitude_min[0] / 2 > Loader::kLargest) return;
  Bits bits[2] = {0, kSign};
  auto least = static_cast<Bits>(~Bits{0});
  for (size_t i = 0; i < kLanes; ++i) {
    if (unsigned_max[i] > bits[0]) bits[0] = unsigned_max[i];
    if (magnitude_min[i] < least) least = magnitude_min[i];
    const bool positive = signed_max[i] < kSign;
    if (positive && (bits[1] >= kSign || signed_max[i] > bits[1])) {
      bits[1] = signed_max[i];
    }
  }
  if (bits[0] < kSign) bits[0] = least / 2;
  if (bits[1] >= kSign) bits[1] = static_cast<Bits>(least / 2 + kSign);
  double values[2];
  ToDouble(Loader::kComponent, reinterpret_cast<const std::byte*>(bits), 2,
           values);
  if (values[0] < state.min) state.min = values[0];
  if (values[1] > state.max) state.max = values[1];
}

// Whether the sums of squares of finite elements neither overflow nor vanish.
HWY_INLINE bool SquaresAreInRange(const PackedSums& sums) {
  const PackedLane d;
  const auto largest = hn::Max(sums.squares[0], sums.squares[1]);
  const auto within = hn::Le(largest, hn::Set(d, kSquaresHigh<float>));
  if (HWY_UNLIKELY(!hn::AllTrue(d, within))) return false;
  const auto enough = hn::Ge(largest, hn::Set(d, kSquaresLow<float>));
  if (HWY_LIKELY(!hn::AllFalse(d, enough))) return true;
  const auto zero = hn::Zero(d);
  const auto some = hn::Or(hn::Ne(sums.l1[0], zero), hn::Ne(sums.l1[1], zero));
  return hn::AllFalse(d, some);
}

// Adds eight lanes to a running sum. Its exponent is 0, as for every dtype that
// is exact in float.
HWY_INLINE void AddFolded(PackedLanes folded, LaneSum& sum) {
  const hn::CappedTag<double, 4> d;
  const hn::Half<PackedLane> half;
  const auto low = hn::PromoteTo(d, hn::LowerHalf(half, folded));
  const auto high = hn::PromoteTo(d, hn::UpperHalf(half, folded));
  hn::Store(hn::Add(hn::Load(d, sum.lane), low), d, sum.lane);
  hn::Store(hn::Add(hn::Load(d, sum.lane + 4), high), d, sum.lane + 4);
}

template <class Loader>
HWY_INLINE void AddFolded(const PackedSums& sums, SummaryState& state) {
  auto sum = Loader::Fold(sums.sum);
  auto l1 = Loader::Fold(sums.l1);
  auto squares = Loader::Fold(sums.squares);
  if constexpr (Loader::kScale != 1) {
    const auto scale = hn::Set(PackedLane(), Loader::kScale);
    sum = hn::Mul(sum, scale);
    l1 = hn::Mul(l1, scale);
    squares = hn::Mul(squares, hn::Mul(scale, scale));
  }
  AddFolded(sum, state.sum);
  AddFolded(l1, state.l1);
  AddFolded(squares, state.squares);
}

// Adds a block of finite elements to the sums if their squares neither overflow
// nor vanish; otherwise changes nothing and returns false.
template <class Loader>
HWY_INLINE bool AddPackedSums(const std::byte* block, SummaryState& state) {
  const auto none = hn::Zero(PackedLane());
  PackedSums sums = {{none, none}, {none, none}, {none, none}};
  for (size_t row = 0; row < kRowsPerBlock; row += Loader::kRowsAtOnce) {
    Loader::AddRows(block, row, sums);
  }
  if constexpr (!Loader::kSquaresStayInRange) {
    if (HWY_UNLIKELY(!SquaresAreInRange(sums))) return false;
  }
  AddFolded<Loader>(sums, state);
  return true;
}

// Takes whole blocks. `other` gets those that are not served here, one by one.
template <class Loader, class Other>
HWY_INLINE void AddPackedBlocks(const std::byte* bytes, size_t blocks,
                                SummaryState& state, const Other& other) {
  using Bits = typename Loader::Bits;
  using D = hn::CappedTag<Bits, kPackedVectorBytes / sizeof(Bits)>;
  const D d;
  constexpr size_t kBlockBytes = kBlockElements * sizeof(Bits);
  constexpr bool kStaged = Loader::kStagedBytes != 0;
  constexpr size_t kStep =
      kStaged ? kBlockElements * Loader::kStagedBytes : kBlockBytes;
  const auto ones = hn::Set(d, static_cast<Bits>(~Bits{0}));
  PackedExtremes<D> extremes = {hn::BitCast(hn::RebindToSigned<D>(), ones),
                                hn::Zero(d), ones};
  PackedStage<Loader> stage;
  const std::byte* const end = bytes + blocks * kBlockBytes;
  while (bytes != end) {
    const auto rest = static_cast<size_t>(end - bytes);
    const size_t size = rest < kPackedRoundBytes ? rest : kPackedRoundBytes;
    const size_t now = size / kBlockBytes;
    const bool finite =
        TakeExtremes<Loader>(d, bytes, size, extremes, state.zero_count, stage);
    const std::byte* from = kStaged ? stage.bytes : bytes;
    for (size_t i = 0; i < now; ++i, from += kStep) {
      const std::byte* block = bytes + i * kBlockBytes;
      PrefetchAhead(block, kBlockBytes);
      if (HWY_LIKELY(finite && AddPackedSums<Loader>(from, state))) continue;
      const uint64_t zero_count = state.zero_count;
      other(block);
      // The zeros of a finite round are counted already.
      if (finite) state.zero_count = zero_count;
    }
    bytes += size;
  }
  Store<Loader>(d, extremes, state);
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_PACKED_SUMMARY

#endif  // MSITD_PROTOS_COMPUTE_PACKED_SUMMARY_INL_H_
