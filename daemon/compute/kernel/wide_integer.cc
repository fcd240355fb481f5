// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/wide_integer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/numeric/int128.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

constexpr double kDoubleIntegersMax = 0x1p53;
// Every element of a wide type is at most this.
constexpr double kWholeMax = 0x1p64;

// An element, taken apart so that no bit is lost. On some CPUs a long double
// would hold it, but it does not round alike on all of them.
struct Number {
  double rounded;
  absl::int128 whole;  // Void beyond kWholeMax.
  double fraction;

  bool has_whole() const { return std::fabs(rounded) <= kWholeMax; }
};

template <typename Int>
Number FromInteger(const std::byte* bytes) {
  Int x;
  std::memcpy(&x, bytes, sizeof(x));
  return {static_cast<double>(x), x, 0};
}

Number ElementAt(DType component, const std::byte* bytes) {
  if (component == DType::kInt64) return FromInteger<int64_t>(bytes);
  if (component == DType::kUint64) return FromInteger<uint64_t>(bytes);
  Number out = {};
  ToDouble(component, bytes, 1, &out.rounded);
  if (!out.has_whole()) return out;
  const double whole = std::trunc(out.rounded);
  out.whole = absl::int128(whole);
  out.fraction = out.rounded - whole;
  return out;
}

// |t - g| of two numbers, one of them an integer; 0 only if they are equal.
double Difference(const Number& t, const Number& g) {
  if (!t.has_whole() || !g.has_whole()) return std::fabs(t.rounded - g.rounded);
  return std::fabs(static_cast<double>(t.whole - g.whole) +
                   (t.fraction - g.fraction));
}

// One side of a block.
struct Side {
  DType component;
  const std::byte* bytes;

  Number at(size_t i) const {
    return ElementAt(component, bytes + i * ElementBytes(component));
  }
  // True if double may round an element: its magnitude is then at least 2^53,
  // rounded or not.
  bool IsRounded(size_t count) const {
    if (!IsWide(component)) return false;
    double elements[kBlockElements];
    ToDouble(component, bytes, count, elements);
    return std::any_of(elements, elements + count, [](double x) {
      return std::fabs(x) >= kDoubleIntegersMax;
    });
  }
};

// The part of a PairState that depends on differences.
struct DifferenceSums {
  explicit DifferenceSums(const PairState& state)
      : squares(state.difference_squares),
        differences(state.differences),
        ratios(state.ratios),
        max_ratio(state.max_ratio),
        max_difference(state.max_difference),
        max_index(state.max_index),
        max_target(state.max_target),
        max_golden(state.max_golden) {}

  void Restore(PairState& state) const {
    state.difference_squares = squares;
    state.differences = differences;
    state.ratios = ratios;
    state.max_ratio = max_ratio;
    state.max_difference = max_difference;
    state.max_index = max_index;
    state.max_target = max_target;
    state.max_golden = max_golden;
  }

  LaneSum squares;
  LaneSum differences;
  LaneSum ratios;
  double max_ratio;
  double max_difference;
  uint64_t max_index;
  double max_target;
  double max_golden;
};

// Adds all that depends on the differences of a block, exactly, and counts the
// mismatches that double does not show. `first` is the index of its first pair.
void AddExactDifferences(const Side& target, const Side& golden, size_t count,
                         uint64_t first, PairState& state) {
  double differences[kBlockElements] = {};
  double ratios[kBlockElements] = {};
  for (size_t i = 0; i < count; ++i) {
    const Number t = target.at(i);
    const Number g = golden.at(i);
    if (!std::isfinite(t.rounded) || !std::isfinite(g.rounded)) {
      OfferDifference(0, 0, first + i, state);
      continue;
    }
    const double difference = Difference(t, g);
    if (difference != 0 && t.rounded == g.rounded) ++state.mismatch_count;
    differences[i] = difference;
    ratios[i] = difference /
                (g.rounded == 0 ? kZeroGoldenDivisor : std::fabs(g.rounded));
    const double largest = state.max_difference;
    OfferDifference(difference, t.rounded, g.rounded, first + i, state);
    if (state.max_difference != largest && t.has_whole() && g.has_whole()) {
      state.max_integers = {first + i, t.whole, g.whole};
    }
  }
  AddDifferences(differences, 0, state);
  AddRatios(ratios, state);
}

}  // namespace

void WideDifferences(DType target_component, const std::byte* target,
                     DType golden_component, const std::byte* golden,
                     size_t count, double* out) {
  const Side t{target_component, target};
  const Side g{golden_component, golden};
  for (size_t i = 0; i < count; ++i) {
    out[i] = Difference(t.at(i), g.at(i));
  }
}

void AddWidePairs(PairKernel kernel, const std::byte* target,
                  const std::byte* golden, size_t count, PairState& state) {
  const size_t target_bytes = ElementBytes(state.target);
  const size_t golden_bytes = ElementBytes(state.golden);
  size_t taken = 0;
  const auto take = [&](size_t end) {
    if (end > taken) {
      kernel(target + taken * target_bytes, golden + taken * golden_bytes,
             end - taken, state);
    }
    taken = end;
  };
  // The kernel takes stretches of blocks that double holds. A block with a
  // rounded element goes through the kernel alone; what it added to the sums of
  // differences is then taken back, and the exact differences are added.
  for (size_t at = 0; at < count; at += kBlockElements) {
    const size_t now = std::min(kBlockElements, count - at);
    const Side t{state.target, target + at * target_bytes};
    const Side g{state.golden, golden + at * golden_bytes};
    if (!t.IsRounded(now) && !g.IsRounded(now)) continue;
    take(at);
    const DifferenceSums before(state);
    const uint64_t first = state.count;
    take(at + now);
    before.Restore(state);
    state.NeedArithmetic(Arithmetic::kCareful);
    AddExactDifferences(t, g, now, first, state);
  }
  take(count);
}

}  // namespace msitd::compute
