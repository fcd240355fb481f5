// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/row_errors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The square of kNl2Floor.
constexpr double kFloorSquare = kNl2Floor * kNl2Floor;

struct Spread {
  double max = 0;
  uint64_t place = 0;  // The first position of `max`.
  double median = 0;
};

constexpr size_t kBuckets = 512;

// Keeps those of the numbers from 0 to `largest` that are in the same bucket as
// the one that has `wanted` smaller ones. Returns how many of them are smaller
// than it.
size_t KeepBucket(std::vector<double>& numbers, double largest, size_t wanted) {
  // The bits of doubles that are not negative are in the order of the numbers.
  // Counted from the largest number downwards, each bucket covers one eighth of
  // an octave, and the last bucket has all smaller numbers.
  constexpr int kDropped = 52 - 3;
  const auto top = std::bit_cast<uint64_t>(largest);
  const auto bucket_of = [top](double x) {
    return std::min<uint64_t>((top - std::bit_cast<uint64_t>(x)) >> kDropped,
                              kBuckets - 1);
  };
  std::array<uint32_t, kBuckets> counts = {};
  for (const double x : numbers) ++counts[bucket_of(x)];
  uint64_t bucket = kBuckets - 1;
  for (; counts[bucket] <= wanted; --bucket) wanted -= counts[bucket];
  const auto is_other = [&](double x) { return bucket_of(x) != bucket; };
  numbers.erase(std::remove_if(numbers.begin(), numbers.end(), is_other),
                numbers.end());
  return wanted;
}

// Returns the lower median of numbers from 0 to `largest`. Changes their order.
double MedianOf(std::vector<double>& numbers, double largest) {
  size_t wanted = (numbers.size() - 1) / 2;
  // Partitioning one bucket is faster than partitioning many numbers, but a few
  // numbers take less time than the counters of the buckets.
  if (numbers.size() >= kBuckets) {
    wanted = KeepBucket(numbers, largest, wanted);
  }
  const auto middle = numbers.begin() + static_cast<ptrdiff_t>(wanted);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// Returns the largest of the ratios, its position, and the lower median.
// Changes the order of the ratios.
Spread SpreadOf(std::vector<double>& ratios) {
  Spread out;
  const auto largest = std::max_element(ratios.begin(), ratios.end());
  out.max = *largest;
  out.place = static_cast<uint64_t>(largest - ratios.begin());
  out.median = MedianOf(ratios, out.max);
  return out;
}

// Returns |d| / max(|g|, floor) for each sum, from the squares of these. Both
// squares may be divided by powers of two; `shift` is the difference of the
// exponents.
Spread RatiosOf(const SquareSums& sums, double floor_square, int64_t shift) {
  const size_t count = sums.golden.size();
  std::vector<double> ratios(count);
  double largest = 0;
  double smallest = kInfinity;
  for (size_t i = 0; i < count; ++i) {
    const double divisor = std::max(sums.golden[i], floor_square);
    const double difference = sums.difference[i];
    ratios[i] = difference == 0 ? 0 : difference / divisor;
    largest = std::max(largest, ratios[i]);
    smallest = std::min(smallest, difference == 0 ? kInfinity : ratios[i]);
  }
  // Ratios are compared by their squares, and roots are taken of only two of
  // them, unless a quotient of squares exceeds the range of double.
  const bool are_roots = std::isinf(largest) || smallest == 0;
  if (are_roots) {
    for (size_t i = 0; i < count; ++i) {
      const double divisor = std::max(sums.golden[i], floor_square);
      if (ratios[i] == 0 && sums.difference[i] == 0) continue;
      ratios[i] = std::sqrt(sums.difference[i]) / std::sqrt(divisor);
    }
  }
  Spread out = SpreadOf(ratios);
  for (double* const value : {&out.max, &out.median}) {
    *value = Scale(are_roots ? *value : std::sqrt(*value), shift);
  }
  return out;
}

// Adds the two components of each complex element.
SquareSums Joined(const SquareSums& sums) {
  SquareSums out;
  for (size_t i = 0; i + 1 < sums.golden.size(); i += 2) {
    out.difference.push_back(sums.difference[i] + sums.difference[i + 1]);
    out.golden.push_back(sums.golden[i] + sums.golden[i + 1]);
  }
  return out;
}

}  // namespace

void AddRowErrors(const RowShape& shape, const PairState& pair, RowState* rows,
                  PairMetrics& out) {
  const auto set = [&out](Metric metric, double value) {
    out.values[static_cast<int>(metric)] = value;
  };
  const std::optional<double> nl2 = out[Metric::kNl2];
  if (!nl2.has_value() || shape.row_count == 0) return;
  if (shape.row_count == 1) {
    set(Metric::kRowNl2Max, *nl2);
    set(Metric::kRowNl2P50, *nl2);
    if (rows == nullptr) return;
  }
  // A tensor that ends within a row does not have this shape.
  const uint64_t parts = rows == nullptr ? 1 : shape.row_elements;
  if (rows == nullptr || parts == 0 || rows->at != 0 ||
      pair.count != rows->row_elements * shape.row_count) {
    return;
  }
  rows->FlushFloats();
  const int64_t shift = rows->difference_exponent - rows->golden_exponent;
  const auto add = [&](const SquareSums& sums, Metric max, Metric median,
                       uint64_t of_largest, uint64_t& place) {
    if (sums.golden.empty()) return;
    const auto count = static_cast<double>(sums.golden.size());
    const double mean_square =
        Scale(pair.golden_squares.Mantissa() / count,
              pair.golden_squares.exponent - 2 * rows->golden_exponent);
    Spread spread = RatiosOf(sums, kFloorSquare * mean_square, shift);
    constexpr double kMedianFloorSquare = kMedianNl2Floor * kMedianNl2Floor;
    const double median_floor_square = kMedianFloorSquare * mean_square;
    const bool has_small =
        std::any_of(sums.golden.begin(), sums.golden.end(),
                    [&](double x) { return x < median_floor_square; });
    if (has_small) {
      spread.median = RatiosOf(sums, median_floor_square, shift).median;
    }
    // The worst part cannot be better than the whole. The sums may show
    // otherwise if small differences vanish beside larger ones.
    const double least = *nl2 * (1 - kFloorSquare);
    if (spread.max < least / 2) spread.place = of_largest;
    spread.max = std::max(spread.max, least);
    set(max, spread.max);
    set(median, spread.median);
    place = spread.place;
  };
  const uint64_t largest = out.max_abs_index;
  if (shape.row_count > 1) {
    add(rows->rows, Metric::kRowNl2Max, Metric::kRowNl2P50,
        largest / rows->row_elements, out.worst_row);
  }
  const bool is_complex = rows->row_elements != shape.row_elements;
  const uint64_t component = largest % rows->row_elements;
  add(is_complex ? Joined(rows->channels) : rows->channels,
      Metric::kChannelNl2Max, Metric::kChannelNl2P50,
      is_complex ? component / 2 : component, out.worst_channel);
  // The relative error of a single small element can be arbitrarily large, so
  // its maximum says nothing.
  if (shape.row_count == 1) {
    out.values[static_cast<int>(Metric::kChannelNl2Max)].reset();
  }
}

}  // namespace msitd::compute
