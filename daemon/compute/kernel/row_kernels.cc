// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/row_kernels.h"

#include <algorithm>
#include <type_traits>

#include "daemon/compute/kernel/row_reference.h"
#include "protos/base/dtype.h"
#include "protos/compute/kernel/kernels.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/compute/kernel/row_kernels.cc"
// The order matters: from here on this file is compiled once for every target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/fold-inl.h"
#include "protos/compute/kernel/loaders-inl.h"
#include "daemon/compute/kernel/decode-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace {

// How rows are summed up. A chunk of 1,024 elements is decoded to float or
// double, which leaves it in the first-level cache. Its squares are added to
// the sums of their channels as they are, and to those of their row over the
// virtual lanes (lane_sum.h).

inline constexpr size_t kChunkBlocks = kRowChunk / kBlockElements;

// The sums of the channels of a stretch, as T.
template <typename T>
struct ChannelSums {
  T* difference;
  T* golden;
};

// The total of the lanes, in the order of LaneSum.
template <typename T>
HWY_INLINE double TotalOfLanes(const T* lanes) {
  constexpr size_t kHalf = kFoldLanes / 2;
  const hn::CappedTag<double, kHalf> d64;
  alignas(64) double sums[kHalf];
  for (size_t j = 0; j < kHalf; j += hn::MaxLanes(d64)) {
    hn::Store(hn::Add(FoldAt(d64, lanes, j), FoldAt(d64, lanes, j + kHalf)),
              d64, sums + j);
  }
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Adds the elements behind the last whole round of the virtual lanes.
template <typename T, bool kHasChannels>
HWY_INLINE void AddRestOf(const T* target, const T* golden, size_t count,
                          ChannelSums<T> channels, T* difference_lanes,
                          T* golden_lanes) {
  for (size_t i = 0; i < count; ++i) {
    const T difference = target[i] - golden[i];
    const T difference_square = difference * difference;
    const T golden_square = golden[i] * golden[i];
    difference_lanes[i] += difference_square;
    golden_lanes[i] += golden_square;
    if constexpr (kHasChannels) {
      channels.difference[i] += difference_square;
      channels.golden[i] += golden_square;
    }
  }
}

// Reads one element.
template <class Loader, typename T = typename Loader::Arithmetic>
HWY_INLINE T LoadOne(const std::byte* bytes) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(Loader::Load(d, bytes));
}

template <class Loader, bool kHasChannels, typename T>
HWY_INLINE void AddStretchOf(const std::byte* target, const std::byte* golden,
                             size_t count, ChannelSums<T> channels,
                             RowState& state) {
  const BlockTag<T> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kVectors = kVirtualLanes / kLanes;
  alignas(64) T difference_lanes[kVirtualLanes] = {};
  alignas(64) T golden_lanes[kVirtualLanes] = {};
  const size_t whole = count / kVirtualLanes * kVirtualLanes;
  if (whole > 0) {
    hn::Vec<BlockTag<T>> difference_sums[kVectors];
    hn::Vec<BlockTag<T>> golden_sums[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      difference_sums[v] = golden_sums[v] = hn::Zero(d);
    }
    for (size_t i = 0; i < whole; i += kVirtualLanes) {
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t at = i + v * kLanes;
        const auto t = Loader::Load(d, target + at * Loader::kBytes);
        const auto g = Loader::Load(d, golden + at * Loader::kBytes);
        const auto difference = hn::Sub(t, g);
        const auto difference_square = hn::Mul(difference, difference);
        const auto golden_square = hn::Mul(g, g);
        difference_sums[v] = hn::Add(difference_sums[v], difference_square);
        golden_sums[v] = hn::Add(golden_sums[v], golden_square);
        if constexpr (kHasChannels) {
          T* const to_difference = channels.difference + at;
          T* const to_golden = channels.golden + at;
          hn::StoreU(hn::Add(hn::LoadU(d, to_difference), difference_square), d,
                     to_difference);
          hn::StoreU(hn::Add(hn::LoadU(d, to_golden), golden_square), d,
                     to_golden);
        }
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(difference_sums[v], d, difference_lanes + v * kLanes);
      hn::Store(golden_sums[v], d, golden_lanes + v * kLanes);
    }
  }
  const size_t rest = count - whole;
  if (rest > 0) {
    T t[kVirtualLanes];
    T g[kVirtualLanes];
    for (size_t i = 0; i < rest; ++i) {
      t[i] = LoadOne<Loader>(target + (whole + i) * Loader::kBytes);
      g[i] = LoadOne<Loader>(golden + (whole + i) * Loader::kBytes);
    }
    if constexpr (kHasChannels) {
      channels.difference += whole;
      channels.golden += whole;
    }
    AddRestOf<T, kHasChannels>(t, g, rest, channels, difference_lanes,
                               golden_lanes);
  }
  state.AddStretch(TotalOfLanes(difference_lanes), TotalOfLanes(golden_lanes),
                   count);
}

template <class Loader, bool kHasChannels, typename T>
HWY_NOINLINE void AddRowChunk(const std::byte* target, const std::byte* golden,
                              size_t count, ChannelSums<T> channels,
                              RowState& state) {
  while (count > 0) {
    const size_t now = std::min<uint64_t>(count, state.row_elements - state.at);
    ChannelSums<T> here = channels;
    if constexpr (kHasChannels) {
      here.difference += state.at;
      here.golden += state.at;
      // The end of a row may have emptied them.
      if (sizeof(T) == sizeof(float)) state.has_floats = true;
    }
    AddStretchOf<Loader, kHasChannels>(target, golden, now, here, state);
    target += now * Loader::kBytes;
    golden += now * Loader::kBytes;
    count -= now;
  }
}

template <class Loader, typename T>
HWY_INLINE void AddRowChunkOf(const std::byte* target, const std::byte* golden,
                              size_t count, ChannelSums<T> channels,
                              RowState& state) {
  if (state.has_channels()) {
    AddRowChunk<Loader, true>(target, golden, count, channels, state);
  } else {
    AddRowChunk<Loader, false>(target, golden, count, channels, state);
  }
}

// Returns one side of a chunk as T: where it lies if it has that type, else
// decoded into `buffer`.
template <typename T>
HWY_INLINE const std::byte* ChunkAs(DType component, const std::byte* bytes,
                                    size_t count,
                                    Decoded<T> (&buffer)[kChunkBlocks]) {
  if (component == kDTypeOf<T>) return bytes;
  const size_t step = kBlockElements * ElementBytes(component);
  for (size_t i = 0; i * kBlockElements < count; ++i) {
    Decode(component, bytes + i * step, buffer[i]);
  }
  return buffer[0].bytes();
}

template <typename T>
using LoaderOf =
    std::conditional_t<sizeof(T) == sizeof(float), LoadFloat32, LoadFloat64>;

template <typename T>
HWY_NOINLINE void AddRowChunks(const std::byte* target, const std::byte* golden,
                               size_t count, ChannelSums<T> channels,
                               RowState& state) {
  Decoded<T> target_buffer[kChunkBlocks];
  Decoded<T> golden_buffer[kChunkBlocks];
  const bool is_bfloat16 =
      state.target == DType::kBfloat16 && state.golden == DType::kBfloat16;
  while (count > 0) {
    const size_t now = std::min(count, kRowChunk);
    if (sizeof(T) == sizeof(float) && is_bfloat16) {
      // Loading them is as quick as loading what was decoded.
      if constexpr (sizeof(T) == sizeof(float)) {
        AddRowChunkOf<LoadBfloat16>(target, golden, now, channels, state);
      }
    } else {
      AddRowChunkOf<LoaderOf<T>>(
          ChunkAs(state.target, target, now, target_buffer),
          ChunkAs(state.golden, golden, now, golden_buffer), now, channels,
          state);
    }
    target += now * ElementBytes(state.target);
    golden += now * ElementBytes(state.golden);
    count -= now;
  }
}

void AddRowsOf(const std::byte* target, const std::byte* golden, size_t count,
               Arithmetic arithmetic, RowState& state) {
  if (arithmetic == Arithmetic::kFloat) {
    AddRowChunks<float>(
        target, golden, count,
        {state.float_difference.data(), state.float_golden.data()}, state);
  } else {
    AddRowChunks<double>(
        target, golden, count,
        {state.channels.difference.data(), state.channels.golden.data()},
        state);
  }
}

}  // namespace
}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msitd::compute {

HWY_EXPORT(AddRowsOf);

RowKernel RowKernelOf(int64_t target) {
  if (target == kReferenceTarget) return ReferenceRowKernel;
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return HWY_DISPATCH_TABLE(AddRowsOf)[chosen.GetIndex()];
}

RowKernel ChosenRowKernel() {
  static const RowKernel chosen = RowKernelOf(ChosenKernels().target);
  return chosen;
}

void AddRows(RowKernel kernel, const std::byte* target, const std::byte* golden,
             size_t count, Arithmetic arithmetic, RowState& state) {
  if (arithmetic != Arithmetic::kCareful && state.MakePlain()) {
    kernel(target, golden, count, arithmetic, state);
  } else {
    AddRowsCarefully(target, golden, count, state);
  }
}

}  // namespace msitd::compute
#endif  // HWY_ONCE
