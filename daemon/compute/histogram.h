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

// Counts elements into bins. Element x, in double, is in the bin whose number
// is that of the edges of HistogramEdges, first and last left out, that are not
// above x; so a bin has its lower edge and the last one both. Where `low` is
// `high`, the first bin has what is there. Depends neither on the CPU nor on
// how the tensor is cut into calls. Thread-compatible.
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
  // The bin of x is (x * scale_ - scaled_low_) * bins_per_unit_, give or take
  // one, unless `is_narrow_`.
  const double scale_;
  const double scaled_low_;
  const double bins_per_unit_;
  // Slot 0 is below, then come the bins, above, and NaN. A slot begins at its
  // number here.
  std::vector<double> begins_;
  // The edges are hardly further apart than doubles are: their rounding is
  // worth several bins.
  bool is_narrow_ = false;
  // Several tables of slots, used in turn: neighbours are often in the same
  // bin, and a counter waits for its last change to be stored.
  std::vector<uint64_t> counts_;
  // For dtypes of one byte, tables of all their values instead.
  std::array<uint64_t, kTables* kByteValues> byte_counts_ = {};
};

// The finite elements' extremes; +0 stands for either zero.
struct FiniteRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool is_empty() const { return low > high; }
};

// Widens `range` to the finite elements in `bytes`, whole ones of `dtype`.
void Widen(std::span<const std::byte> bytes, DType dtype, FiniteRange& range);

}  // namespace msitd::compute
