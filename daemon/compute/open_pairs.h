// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"
#include "protos/base/summary.h"

// Metrics of a pair of scores to which a mask was added. Only the places that
// the mask leaves open are measured.
namespace msitd::compute {

// True for types that can close a place: they have -Inf and large magnitudes.
constexpr bool MayHaveClosedPlaces(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// The metrics of the open places of a pair.
struct OpenPairs {
  PairMetrics metrics;
  ElementMetrics elements;
  // Counts, extremes and squares of the finite elements of the golden side.
  Summary golden;
  uint64_t closed_count = 0;  // Places that are closed on both sides.
};

// Measures the open places of a pair of masked scores.
//
// A mask closes a place of attention scores with -Inf or with a large negative
// number. If the runs use different values, every closed place differs hugely,
// although it has no weight after a softmax. Excluding large negative values is
// not safe, because large activations can have the same values. The accumulator
// therefore excludes only places that are closed on both sides, and only if the
// whole tensor shows that a mask was added; see Finish(). The price is a second
// set of accumulators for such tensors.
//
// A place is closed on a side if its element is -Inf, the closing value of the
// side or, where two masks were added, twice that value. Deviations up to
// kClosingError are allowed. A place that is closed on both sides is treated as
// a pair of equal infinities, which no metric includes. A place that is closed
// on only one side counts like any other difference.
//
// Used in addition to a PairAccumulator. Takes a pair in pieces of any size.
// Thread-compatible.
class OpenPairAccumulator {
 public:
  // Maximum relative distance of a closed element from its closing value,
  // because the mask was added to a score.
  static constexpr double kClosingError = 0x1p-7;
  // Maximum magnitude of open places, as a share of that of the closing values.
  static constexpr double kOpenShare = 0x1p-3;
  // Minimum share of closed places, unless a softmax takes the scores. Masks
  // close many places, whereas massive activations are rare.
  static constexpr double kClosedShare = 0x1p-3;

  // `request` must have closing values. MayHaveClosedPlaces must be true for
  // both types.
  OpenPairAccumulator(DType target, DType golden,
                      const ElementRequest& request);

  // Adds the next elements, the same number on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  // Returns nullopt unless all of the following are true:
  // - Some places are closed on both sides, and others are open. At least
  //   kClosedShare of all places are closed, or a softmax takes the scores.
  // - The closed places of a side differ by no more than the scores to which
  //   the mask was added and rounding allow. The open places show the range of
  //   scores.
  // - In a row without open places, either both sides have -Inf or neither has.
  //   The softmax of such a row is NaN only with -Inf.
  // - No element is between open and closed ones, and there is no NaN and no
  //   +Inf.
  // - No side has only twice its closing value.
  std::optional<OpenPairs> Finish() const;

 private:
  struct Side {
    DType dtype;
    double closing;
    bool has_single = false;  // A place is closed by -Inf or the value itself.
    bool has_double = false;
    // The extremes of the finite elements that are closed by the value itself.
    double closed_min = std::numeric_limits<double>::infinity();
    double closed_max = -std::numeric_limits<double>::infinity();
    double open_max = 0;  // The largest magnitude of the open places.
    bool has_infinity_in_row = false;

    bool IsClosed(double value);
    bool IsStray(double value) const;
    // True if the closed places can result from adding one value to scores.
    bool IsMaskOfScores() const;
  };

  void AddPiece(const std::byte* target, const std::byte* golden, size_t count);
  void AddToSummary(double golden);
  void EndPlace(bool is_closed);

  Side target_;
  Side golden_;
  PairAccumulator pairs_;
  std::optional<ElementAccumulator> elements_;
  std::vector<std::byte> target_copy_;
  std::vector<std::byte> golden_copy_;
  std::vector<double> targets_;
  std::vector<double> goldens_;
  Summary summary_;
  uint64_t row_elements_ = 0;  // 0 if all elements are one row.
  bool are_softmaxed_ = false;
  uint64_t place_count_ = 0;
  uint64_t closed_count_ = 0;
  uint64_t closed_in_row_ = 0;
  bool has_strays_ = false;
  bool has_other_rows_ = false;  // Closed rows have -Inf on only one side.
};

}  // namespace msitd::compute
