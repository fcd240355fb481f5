// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "protos/base/dtype.h"

// How the elements of a tensor spread over bins of equal width. A complex
// element counts as its two components.
namespace msitd::compute {

inline constexpr int kHistogramBinsMax = 1024;

struct Histogram {
  double low = 0;
  double high = 0;
  std::vector<uint64_t> counts;  // Of each bin.
  uint64_t below_count = 0;      // Below `low`, -Inf included.
  uint64_t above_count = 0;      // Above `high`, +Inf included.
  uint64_t nan_count = 0;
};

// Counts elements into bins. Bin i has the elements x, as double, with
// edge[i] <= x < edge[i + 1], where HistogramEdges gives the edges; the last
// bin has its upper edge, too. Where `low` is `high`, the first bin has the
// elements that equal both. The counts depend neither on the CPU nor on how the
// tensor is cut into calls. Thread-compatible.
class HistogramCounter {
 public:
  // `bin_count` is 1 to kHistogramBinsMax; the limits are finite and `low` is
  // not above `high`.
  HistogramCounter(DType dtype, int bin_count, double low, double high);

  // Adds whole elements; their address needs no alignment.
  void Add(std::span<const std::byte> bytes);

  Histogram Result() const;

 private:
  static constexpr size_t kTables = 4;
  static constexpr size_t kByteValues = 256;

  size_t SlotOf(double x) const;
  size_t SearchSlot(double x) const;
  void CountBlock(const double* elements, size_t count);
  void CountBytes(std::span<const std::byte> bytes);
  // Elements in each slot.
  std::vector<uint64_t> Slots() const;

  const DType dtype_;
  const size_t bin_count_;
  const double low_;
  const double high_;
  // Unless `is_narrow_`, the bin of x is (x * scale_ - scaled_low_) *
  // bins_per_unit_, give or take one.
  const double scale_;
  const double scaled_low_;
  const double bins_per_unit_;
  // The lower end of each slot. Slot 0 is below; then come the bins, above, and
  // NaN.
  std::vector<double> begins_;
  // The edges are so close to each other that their rounding may exceed a bin.
  bool is_narrow_ = false;
  // Several tables of slots, used in turn. Neighbouring elements are often in
  // the same bin, and a second increment of one counter waits for the first.
  std::vector<uint64_t> counts_;
  // For dtypes of one byte: counts of each of the 256 values instead.
  std::array<uint64_t, kTables* kByteValues> byte_counts_ = {};
};

// The extremes of the finite elements; +0 stands for either zero.
struct FiniteRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool is_empty() const { return low > high; }
};

// Widens `range` to the finite elements in `bytes`, whole ones of `dtype`.
void Widen(std::span<const std::byte> bytes, DType dtype, FiniteRange& range);

}  // namespace msitd::compute
