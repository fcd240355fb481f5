// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"
#include "protos/base/summary.h"

// Metrics of a pair that require an additional pass over the elements and are
// therefore computed only on request. docs/metrics.md has every formula.
namespace msitd::compute {

// Bits of ElementRequest::sets.
enum MetricSet : uint32_t {
  kToleranceSet = 1u << 0,
  kUlpSet = 1u << 1,
  kShareSet = 1u << 2,
  kPercentileSet = 1u << 3,
  kPearsonSet = 1u << 4,
  kBitSet = 1u << 5,
  kTopKSet = 1u << 6,
  kMsitSet = 1u << 7,
  kMsprobeSet = 1u << 8,
};

// The values index ElementMetrics. They are in the order of reports.
enum class ElementMetric : int {
  kOutlierCount,      // elements with |t - g| > atol + rtol |g|
  kAtolNeeded,        // least atol without outliers, rtol as it is
  kRtolNeeded,        // least rtol without outliers, atol as it is
  kMaxUlp,            // largest distance in representable values
  kMeanUlp,           // mean distance in representable values
  kWithin1Permille,   // share of elements with |t - g| < 0.001 |g|
  kWithin5Permille,   // share of elements with |t - g| < 0.005 |g|
  kAbsP50,            // percentiles of |t - g|
  kAbsP90,            // see kAbsP50
  kAbsP95,            // see kAbsP50
  kAbsP99,            // see kAbsP50
  kPearson,           // correlation
  kBitMismatchCount,  // elements whose bytes differ
  kArgmaxAgreement,   // share of rows with the largest element in one place
  kTopKOverlap,       // mean share of the k largest that are the same
  kRowKlMax,          // largest KL(softmax(g) || softmax(t)) of a row
  kTop1MarginFlip,    // largest margin of golden where the argmax differs
  kMsitCosine,        // msit's formulas, in float
  kMsitMaxRel,        // see kMsitCosine
  kMsitMeanRel,       // see kMsitCosine
  kMsitMaxAbs,        // see kMsitCosine
  kMsitMeanAbs,       // see kMsitCosine
  kMsitEuclid,        // see kMsitCosine
  kMsitKl,            // see kMsitCosine; of complex pairs only
  kMsprobeCosine,     // msprobe's formulas
  kMsprobeEuclid,     // see kMsprobeCosine
  kMsprobeMaxAbs,     // see kMsprobeCosine
  kMsprobeMaxRel,     // see kMsprobeCosine
  kMsprobeWithin1Permille,  // see kMsprobeCosine
  kMsprobeWithin5Permille,  // see kMsprobeCosine
};
inline constexpr int kElementMetricCount = 30;

inline constexpr int kTopKMax = 64;

// The value that a mask adds to a score to close its place, for each side. Both
// are negative.
struct ClosingValues {
  double target = 0;
  double golden = 0;
  // True if the scores are the input of a softmax, which gives closed places no
  // weight.
  bool are_softmaxed = false;

  friend bool operator==(const ClosingValues&, const ClosingValues&) = default;
};

struct ElementRequest {
  uint32_t sets = 0;

  // Set if the sides look like masked scores; used by OpenPairAccumulator.
  std::optional<ClosingValues> closing = {};

  // For kToleranceSet. An element is an outlier if |t - g| > atol + rtol |g|.
  // With `either`, it is an outlier only if |t - g| > atol and |t - g| > rtol
  // |g|.
  double rtol = 0;
  double atol = 0;
  bool either = false;

  // For kTopKSet: k, from 1 to kTopKMax, and the number of elements in a row of
  // logits, which is the last dimension.
  int top_k = 5;
  uint64_t row_elements = 1;
  // The number of rows of the pair; 0 if rows are incomplete, as in a sample.
  // Without rows, kRowKlMax and kTop1MarginFlip are absent. The other metrics
  // of kTopKSet then treat every `row_elements` elements as a row.
  uint64_t row_count = 1;
  bool is_batch_of_one = false;  // See RowShape.

  RowShape row_shape() const {
    return {row_count, row_elements, is_batch_of_one};
  }
};

struct ElementMetrics {
  // Metrics that were not requested or are not defined for the pair are absent.
  std::optional<double> values[kElementMetricCount];
  // The rows of kRowKlMax and kTop1MarginFlip; meaningless if these are absent
  // or 0.
  uint64_t row_kl_max_row = 0;
  uint64_t top1_flip_row = 0;

  std::optional<double> operator[](ElementMetric metric) const {
    return values[static_cast<int>(metric)];
  }
  void Set(ElementMetric metric, double value) {
    values[static_cast<int>(metric)] = value;
  }
};

// Computes the requested metrics of a pair, which is passed in pieces of any
// size. Thread-compatible. Does not allocate memory after construction.
class ElementAccumulator {
 public:
  // Both dtypes must be valid. Either both or neither are complex.
  ElementAccumulator(DType target, DType golden, const ElementRequest& request);
  ~ElementAccumulator();
  ElementAccumulator(ElementAccumulator&&) noexcept;
  ElementAccumulator& operator=(ElementAccumulator&&) noexcept;

  // Adds the next elements, the same number on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  ElementMetrics Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the result of the accumulator for two equal tensors with this
// summary, without reading them. The msit metrics of complex tensors are absent
// if there are NaN or infinities, because a summary does not show whether these
// are in the real parts.
ElementMetrics ElementMetricsOfEqual(DType dtype, const Summary& summary,
                                     const ElementRequest& request);

}  // namespace msitd::compute
