// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "daemon/compute/kernel/pair_state.h"
#include "protos/base/dtype.h"

// Squares of t - g and of g, summed up for every row and every channel of a
// tensor. docs/kernels.md has the order of the additions.
//
// Elements are taken in stretches of kRowChunk from the start of the tensor, in
// the arithmetic that the pair kernel has found to serve for them:
//
// - in float where float holds the elements and no square of them overflows or
//   vanishes;
// - in double where that is true of double;
// - else carefully: pairs that are not finite are taken as two zeros, and
//   magnitudes are scaled by a power of two before they are squared.
//
// Sums in float are short: those of a row end with the stretch, and those of a
// channel are added to sums in double every kFloatRows rows.
namespace msitd::compute {

inline constexpr size_t kRowChunk = 1024;
inline constexpr uint32_t kFloatRows = 64;

// Begins at a cache line, which vectors in it then do not cross. The padding
// takes a line of memory for each block. An aligned `operator new` takes
// several times as long for the sums of a small tensor.
template <typename T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  explicit LineAllocator(const LineAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T) + kLineBytes;
    auto* const block = static_cast<std::byte*>(::operator new(bytes));
    // A block is aligned for any type, so that there is room for its address
    // before the next line.
    const size_t before =
        kLineBytes - std::bit_cast<uintptr_t>(block) % kLineBytes;
    std::byte* const at = block + before;
    std::memcpy(at - sizeof(block), &block, sizeof(block));
    return reinterpret_cast<T*>(at);
  }
  void deallocate(T* at, size_t /*count*/) {
    std::byte* block = nullptr;
    std::memcpy(&block, reinterpret_cast<std::byte*>(at) - sizeof(block),
                sizeof(block));
    ::operator delete(block);
  }
  bool operator==(const LineAllocator& /*other*/) const { return true; }

 private:
  static constexpr size_t kLineBytes = 64;
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

// The sums of the rows, or of the channels. The squares are those of the
// elements divided by 2^exponent of the side.
struct SquareSums {
  LineVector<double> difference;
  LineVector<double> golden;
};

struct RowState {
  // `row_count` and `channel_count` are 0 for sums that are not wanted.
  // `row_elements` counts components, and is not 0.
  RowState(DType target_component, DType golden_component,
           uint64_t row_elements, uint64_t row_count, uint64_t channel_count);

  const DType target;
  const DType golden;
  const uint64_t row_elements;
  const uint64_t row_count;

  int64_t difference_exponent = 0;
  int64_t golden_exponent = 0;
  // False as long as all squares are zero.
  bool has_difference = false;
  bool has_golden = false;

  // The row that has begun: its next element and its sums so far.
  uint64_t at = 0;
  double row_difference = 0;
  double row_golden = 0;

  SquareSums rows;
  SquareSums channels;
  // Sums of the channels over the rows since the last FlushFloats.
  LineVector<float> float_difference;
  LineVector<float> float_golden;
  uint32_t float_rows = 0;
  bool has_floats = false;  // They are not all zero.

  bool has_channels() const { return !channels.golden.empty(); }

  // Adds the sums of a stretch of the row, `count` elements long, and ends the
  // row with its last element.
  void AddStretch(double difference, double golden_squares, uint64_t count);

  // Adds the sums in float to those in double.
  void FlushFloats();

  // Makes the exponents 0 if that loses nothing but dust. If it returns false,
  // only AddRowsCarefully may add elements.
  bool MakePlain();
};

inline void RowState::AddStretch(double difference, double golden_squares,
                                 uint64_t count) {
  has_difference = has_difference || difference != 0;
  has_golden = has_golden || golden_squares != 0;
  row_difference += difference;
  row_golden += golden_squares;
  at += count;
  if (at != row_elements) return;
  if (rows.golden.size() < row_count) {
    rows.difference.push_back(row_difference);
    rows.golden.push_back(row_golden);
  }
  row_difference = row_golden = 0;
  at = 0;
  if (++float_rows == kFloatRows) FlushFloats();
}

// Adds `count` pairs of any values.
void AddRowsCarefully(const std::byte* target, const std::byte* golden,
                      size_t count, RowState& state);

}  // namespace msitd::compute
