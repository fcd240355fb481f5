// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/numeric/int128.h"
#include "protos/base/dtype.h"

// Metrics of a pair of tensors: t, the target, against g, the golden one. Both
// are taken as real numbers in double; the golden side is the reference that
// relative figures divide by. docs/metrics.md has every formula with its
// source and what it gives for empty, zero, NaN and infinite input.
namespace msitd::compute {

// The numbers index PairMetrics; the order is that of reports.
enum class Metric : int {
  kCosine,            // sum(t g) / (|t| |g|)
  kMaxAbs,            // max |t - g|
  kMeanAbs,           // mean |t - g|
  kMaxRel,            // max |t - g| / |g|
  kMeanRel,           // mean |t - g| / |g|
  kRmse,              // sqrt(mean (t - g)^2)
  kNl2,               // |t - g| / |g|, the relative Euclidean distance
  kKl,                // KL(softmax(g) || softmax(t)) over all elements, in nats
  kSqnrDb,            // 20 log10(|g| / |t - g|)
  kMismatchCount,     // elements that differ; NaN equals NaN, +0 equals -0
  kNanMismatchCount,  // elements that are NaN on one side only
  kInfMismatchCount,  // elements where an infinity meets anything else
  kRel,               // 1 - 2 sum(t g) / sum(t^2 + g^2)
  kL2Distance,        // |t - g|
};
inline constexpr int kMetricCount = 14;

struct PairMetrics {
  // A metric that is not defined for the pair is absent.
  std::optional<double> values[kMetricCount];
  // Where max |t - g| is, as an index into the flattened tensors, and both
  // values there. Void if kMaxAbs is absent or 0. A complex element counts
  // twice.
  uint64_t max_abs_index = 0;
  double max_abs_target = 0;
  double max_abs_golden = 0;
  // The same values exactly, of a side with integers of 64 bits; absent where
  // the double is exact.
  std::optional<absl::int128> max_abs_target_integer = std::nullopt;
  std::optional<absl::int128> max_abs_golden_integer = std::nullopt;

  std::optional<double> operator[](Metric metric) const {
    return values[static_cast<int>(metric)];
  }
};

// Takes a pair block by block and gives all metrics in one pass over the
// bytes. The cut into blocks changes no bit as long as every Update but the
// last covers a multiple of kPairBlockElements elements.
//
// Thread-compatible. Allocates nothing after construction.
class PairAccumulator {
 public:
  static constexpr uint64_t kPairBlockElements = 4096;

  // Both dtypes are valid and both complex or neither; a complex element
  // counts as its two components.
  PairAccumulator(DType target, DType golden);
  ~PairAccumulator();
  PairAccumulator(PairAccumulator&&) noexcept;
  PairAccumulator& operator=(PairAccumulator&&) noexcept;

  // Takes the next elements, equally many on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  PairMetrics Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the metrics of two equal tensors of `count` elements, of which
// `finite_count` are finite, without reading them.
PairMetrics MetricsOfEqual(uint64_t count, uint64_t finite_count);

}  // namespace msitd::compute
