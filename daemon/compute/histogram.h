// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "protos/base/dtype.h"

// Distribution of the elements of a tensor over bins of equal width. A complex
// element counts as two components.
namespace msitd::compute {

inline constexpr int kHistogramBinsMax = 1024;

struct Histogram {
  double low = 0;
  double high = 0;
  std::vector<uint64_t> counts;  // One for each bin.
  uint64_t below_count = 0;      // Elements below `low`, including -Inf.
  uint64_t above_count = 0;      // Elements above `high`, including +Inf.
  uint64_t nan_count = 0;
};

// Counts elements into bins. Bin i has the elements x, converted to double,
// with edge[i] <= x < edge[i + 1], where HistogramEdges returns the edges. The
// last bin also includes its upper edge. If `low` equals `high`, the first bin
// has the elements that equal both. The counts depend neither on the CPU nor on
// how the tensor is divided into calls. Thread-compatible.
class HistogramCounter {
 public:
  // `bin_count` must be 1 to kHistogramBinsMax. The limits must be finite, and
  // `low` must not be above `high`.
  HistogramCounter(DType dtype, int bin_count, double low, double high);

  // Adds whole elements. The address may be unaligned.
  void Add(std::span<const std::byte> bytes);

  Histogram Result() const;

 private:
  static constexpr size_t kTables = 4;
  static constexpr size_t kByteValues = 256;

  size_t SlotOf(double x) const;
  size_t SearchSlot(double x) const;
  void CountBlock(const double* elements, size_t count);
  void CountBytes(std::span<const std::byte> bytes);
  // Returns the number of elements in each slot.
  std::vector<uint64_t> Slots() const;

  const DType dtype_;
  const size_t bin_count_;
  const double low_;
  const double high_;
  // Unless `is_narrow_`, (x * scale_ - scaled_low_) * bins_per_unit_ differs
  // from the bin of x by at most one.
  const double scale_;
  const double scaled_low_;
  const double bins_per_unit_;
  // The lower end of each slot. Slot 0 is for elements below the bins. After it
  // are the bins, then one slot for elements above and one for NaN.
  std::vector<double> begins_;
  // True if the edges are so close to each other that rounding may exceed the
  // width of a bin.
  bool is_narrow_ = false;
  // Several tables of slots, which are used in turn. Neighboring elements are
  // often in the same bin, and a second increment of the same counter would
  // wait for the first.
  std::vector<uint64_t> counts_;
  // For dtypes of one byte: counts of each of the 256 values, instead of slots.
  std::array<uint64_t, kTables* kByteValues> byte_counts_ = {};
};

// The smallest and largest finite elements. Zeros of either sign become +0.
struct FiniteRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool is_empty() const { return low > high; }
};

// Extends `range` to include the finite elements in `bytes`, which are whole
// elements of `dtype`.
void Widen(std::span<const std::byte> bytes, DType dtype, FiniteRange& range);

}  // namespace msitd::compute
