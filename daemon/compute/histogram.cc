// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/histogram.h"

#include <algorithm>
#include <cmath>

#include "protos/base/check.h"
#include "protos/base/histogram_edges.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Number of elements to convert at a time. They stay in the first-level cache.
constexpr size_t kConvertedElements = 512;

// If a bin is narrower than this many distances between neighboring doubles,
// rounding may move an edge by more than an eighth of the bin.
constexpr double kNarrowStep = 4;

// Calls `visit` with blocks of elements, converted to double.
template <typename Visit>
void ForEachBlock(std::span<const std::byte> bytes, DType dtype, Visit visit) {
  const DType component = ComponentOf(dtype);
  const size_t size = ElementBytes(component);
  MSITD_CHECK(bytes.size() % ElementBytes(dtype) == 0);
  double elements[kConvertedElements];
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size() / size, kConvertedElements);
    ToDouble(component, bytes.data(), count, elements);
    visit(elements, count);
    bytes = bytes.subspan(count * size);
  }
}

}  // namespace

HistogramCounter::HistogramCounter(DType dtype, int bin_count, double low,
                                   double high)
    : dtype_(dtype),
      bin_count_(static_cast<size_t>(bin_count)),
      // Replaces -0 by +0.
      low_(low + 0.0),
      high_(high + 0.0),
      scale_(HistogramScale(low, high)),
      scaled_low_(low_ * scale_),
      bins_per_unit_(bin_count / (high_ * scale_ - scaled_low_)) {
  MSITD_CHECK(IsValid(dtype));
  MSITD_CHECK(bin_count > 0 && bin_count <= kHistogramBinsMax);
  const std::vector<double> edges = HistogramEdges(low_, high_, bin_count);
  begins_.push_back(-kInfinity);
  begins_.insert(begins_.end(), edges.begin(), edges.end() - 1);
  begins_.push_back(std::nextafter(high_, kInfinity));
  // No element compares as equal to or above NaN.
  begins_.push_back(std::numeric_limits<double>::quiet_NaN());
  const double magnitude = std::max(std::abs(low_), std::abs(high_)) * scale_;
  const double distance =
      std::max(magnitude * std::numeric_limits<double>::epsilon(),
               std::numeric_limits<double>::denorm_min() * scale_);
  is_narrow_ = low_ == high_ || 1 / bins_per_unit_ < kNarrowStep * distance;
  counts_.resize(kTables * begins_.size());
}

size_t HistogramCounter::SearchSlot(double x) const {
  // Finds the last slot that begins at or below x. Slot 0 begins at -Inf, so
  // there is always one.
  return static_cast<size_t>(
      std::upper_bound(begins_.begin(), begins_.end() - 1, x) -
      begins_.begin() - 1);
}

// Finds the slot without a search or a branch. Bins have equal widths, so one
// multiplication estimates the slot to within one. Two comparisons with the
// edges correct the estimate, so only the edges determine the result.
inline size_t HistogramCounter::SlotOf(double x) const {
  const auto last = static_cast<double>(bin_count_ + 1);
  const double guess = (x * scale_ - scaled_low_) * bins_per_unit_ + 1;
  // The order of the operands turns NaN into 0.
  const double from_zero = guess > 0 ? guess : 0;
  auto slot = static_cast<int32_t>(from_zero < last ? from_zero : last);
  const double* begins = begins_.data();
  slot += static_cast<int32_t>(x >= begins[slot + 1]);
  slot -= static_cast<int32_t>(x < begins[slot]);
  return static_cast<size_t>(x == x ? slot : bin_count_ + 2);
}

void HistogramCounter::CountBlock(const double* elements, size_t count) {
  const size_t stride = begins_.size();
  uint64_t* counts = counts_.data();
  if (is_narrow_) {
    for (size_t i = 0; i < count; ++i) {
      const double x = elements[i];
      ++counts[x == x ? SearchSlot(x) : bin_count_ + 2];
    }
    return;
  }
  size_t i = 0;
  for (; i + kTables <= count; i += kTables) {
    for (size_t table = 0; table < kTables; ++table) {
      ++counts[table * stride + SlotOf(elements[i + table])];
    }
  }
  for (; i < count; ++i) ++counts[SlotOf(elements[i])];
}

void HistogramCounter::CountBytes(std::span<const std::byte> bytes) {
  const auto value = [&bytes](size_t i) {
    return static_cast<size_t>(bytes[i]);
  };
  size_t i = 0;
  for (; i + kTables <= bytes.size(); i += kTables) {
    for (size_t table = 0; table < kTables; ++table) {
      ++byte_counts_[table * kByteValues + value(i + table)];
    }
  }
  for (; i < bytes.size(); ++i) ++byte_counts_[value(i)];
}

void HistogramCounter::Add(std::span<const std::byte> bytes) {
  if (ElementBytes(dtype_) == 1) return CountBytes(bytes);
  ForEachBlock(bytes, dtype_, [this](const double* elements, size_t count) {
    CountBlock(elements, count);
  });
}

std::vector<uint64_t> HistogramCounter::Slots() const {
  const size_t stride = begins_.size();
  std::vector<uint64_t> slots(stride);
  for (size_t i = 0; i < counts_.size(); ++i) slots[i % stride] += counts_[i];
  if (ElementBytes(dtype_) != 1) return slots;
  for (size_t value = 0; value < kByteValues; ++value) {
    const auto byte = static_cast<std::byte>(value);
    double x;
    ToDouble(dtype_, &byte, 1, &x);
    uint64_t& slot = slots[x == x ? SearchSlot(x) : bin_count_ + 2];
    for (size_t table = 0; table < kTables; ++table) {
      slot += byte_counts_[table * kByteValues + value];
    }
  }
  return slots;
}

Histogram HistogramCounter::Result() const {
  const std::vector<uint64_t> slots = Slots();
  Histogram out;
  out.low = low_;
  out.high = high_;
  out.below_count = slots[0];
  out.counts.assign(slots.begin() + 1, slots.end() - 2);
  out.above_count = slots[bin_count_ + 1];
  out.nan_count = slots[bin_count_ + 2];
  // All edges are equal, and the search put the elements that equal them into
  // the last bin.
  if (low_ == high_) std::swap(out.counts.front(), out.counts.back());
  return out;
}

void Widen(std::span<const std::byte> bytes, DType dtype, FiniteRange& range) {
  ForEachBlock(bytes, dtype, [&range](const double* elements, size_t count) {
    double low = range.low;
    double high = range.high;
    for (size_t i = 0; i < count; ++i) {
      const double x = elements[i];
      // NaN and infinities become NaN, which is neither below nor above any
      // number.
      const double finite = x + (x - x);
      low = finite < low ? finite : low;
      high = finite > high ? finite : high;
    }
    range = {low + 0.0, high + 0.0};
  });
}

}  // namespace msitd::compute
