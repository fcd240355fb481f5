// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/numeric/int128.h"
#include "protos/base/dtype.h"

// Metrics of a pair of tensors: the target t and the golden tensor g. Elements
// are compared as real numbers in double. The golden side is the reference of
// relative errors. docs/metrics.md has every formula with its source, and its
// value for empty tensors, zeros, NaN and infinities.
namespace msitd::compute {

// The values index PairMetrics. They are in the order of reports.
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

// A row consists of the elements along the last dimension of a tensor. A
// channel consists of the elements with the same position in every row. A
// single number for the whole tensor hides an error in elements that are much
// smaller than the others. The metrics of rows and channels show it.
struct RowShape {
  // 0 if rows are incomplete, as in a sample. Metrics of rows and channels are
  // then absent.
  uint64_t row_count = 1;
  uint64_t row_elements = 0;  // Unused for one row, unless `is_batch_of_one`.
  // True if the only row belongs to a batch of one, such as the hidden state of
  // a decoding step. Each element is then a channel, and only the median of the
  // channels is computed.
  bool is_batch_of_one = false;
};

// With more rows or channels than this, their metrics are absent. Up to 40
// bytes are allocated for each of them.
inline constexpr uint64_t kRowsMax = uint64_t{1} << 20;
inline constexpr uint64_t kChannelsMax = uint64_t{1} << 16;
// With fewer single elements as channels, their median is absent, because it is
// not meaningful.
inline constexpr uint64_t kSingleChannelsMin = 64;

// The nl2 of a row divides by the norm of its golden elements, or by this share
// of the average norm of the rows if that is larger. Rounding errors in a row
// of zeros are therefore not a large error.
inline constexpr double kNl2Floor = 0x1p-20;
// As kNl2Floor, for the median. It is larger because the default policy limits
// the median: more than half of the rows may be results of cancellation, which
// consist of rounding errors only and are much smaller than the other rows.
inline constexpr double kMedianNl2Floor = 0x1p-12;

struct PairMetrics {
  // Metrics that are not defined for the pair are absent.
  std::optional<double> values[kMetricCount];
  // The position of max |t - g|, as an index into the flattened tensors, and
  // both values there. Meaningless if kMaxAbs is absent or 0. A complex element
  // counts twice.
  uint64_t max_abs_index = 0;
  double max_abs_target = 0;
  double max_abs_golden = 0;
  // The exact values for a side with 64-bit integers; nullopt if the double is
  // exact.
  std::optional<absl::int128> max_abs_target_integer = std::nullopt;
  std::optional<absl::int128> max_abs_golden_integer = std::nullopt;
  // The row of kRowNl2Max and the channel of kChannelNl2Max; meaningless if
  // these are absent. A channel of complex elements includes both components.
  uint64_t worst_row = 0;
  uint64_t worst_channel = 0;

  std::optional<double> operator[](Metric metric) const {
    return values[static_cast<int>(metric)];
  }
};

// Computes all metrics of a pair in one pass over the bytes, which are passed
// in blocks. The division into blocks does not change any bit of the result if
// every Update except the last covers a multiple of kPairBlockElements
// elements.
//
// Thread-compatible. Does not allocate memory after construction.
class PairAccumulator {
 public:
  static constexpr uint64_t kPairBlockElements = 4096;

  // Both dtypes must be valid. Either both or neither are complex, and a
  // complex element counts as its two components. The metrics of rows and
  // channels are absent unless the number of elements matches `rows`.
  PairAccumulator(DType target, DType golden, const RowShape& rows = {});
  ~PairAccumulator();
  PairAccumulator(PairAccumulator&&) noexcept;
  PairAccumulator& operator=(PairAccumulator&&) noexcept;

  // Adds the next elements, the same number on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  PairMetrics Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the metrics of two equal tensors with `count` elements, of which
// `finite_count` are finite, without reading them.
PairMetrics MetricsOfEqual(uint64_t count, uint64_t finite_count,
                           const RowShape& rows = {});

}  // namespace msitd::compute
