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
  kRowNl2Max,         // the largest nl2 of a row
  kRowNl2P50,         // the median of the rows
  kChannelNl2Max,     // the largest nl2 of a channel
  kChannelNl2P50,     // the median of the channels
};
inline constexpr int kMetricCount = 18;

// A row is what lies along the last dimension of a tensor; a channel is what
// has the same position in every row. One figure of the whole tensor hides an
// error beside elements that are much larger; these do not.
struct RowShape {
  // 0 if rows are not whole, as in a sample: then there is no metric of rows or
  // channels.
  uint64_t row_count = 1;
  uint64_t row_elements = 0;  // Void unless there are several rows.
  // The only row is one of a batch, as the hidden state of a decoding step is.
  // Then each element is a channel of its own, of which the median is taken.
  bool is_batch_of_one = false;
};

// With more rows there are no metrics of rows, with more channels none of
// channels. Sums of up to 40 bytes for each of them are kept.
inline constexpr uint64_t kRowsMax = uint64_t{1} << 20;
inline constexpr uint64_t kChannelsMax = uint64_t{1} << 16;
// The median of fewer single elements says nothing.
inline constexpr uint64_t kSingleChannelsMin = 64;

// The nl2 of a row is relative to the norm of its golden elements, or to this
// share of the norm that rows have on average, where that is more. So the dust
// in a row of zeros is no large error.
inline constexpr double kNl2Floor = 0x1p-20;
// The same for the median. It is larger, because the default policy bounds the
// median: more than half of the rows may be what cancellation left beside rows
// of a usual size, and consist of rounding errors only.
inline constexpr double kMedianNl2Floor = 0x1p-12;

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
  // The row of kRowNl2Max and the channel of kChannelNl2Max; void if these are
  // absent. A channel of complex elements has both components.
  uint64_t worst_row = 0;
  uint64_t worst_channel = 0;

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
  // counts as its two components. The metrics of rows and channels are absent
  // unless the elements make up `rows`.
  PairAccumulator(DType target, DType golden, const RowShape& rows = {});
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
PairMetrics MetricsOfEqual(uint64_t count, uint64_t finite_count,
                           const RowShape& rows = {});

}  // namespace msitd::compute
