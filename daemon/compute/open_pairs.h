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

// Metrics of a pair of scores to which a mask was added: over the places that
// the mask leaves open.
namespace msitd::compute {

// True for types that have what closes a place: a large magnitude and -Inf.
constexpr bool MayHaveClosedPlaces(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// What the open places of a pair give.
struct OpenPairs {
  PairMetrics metrics;
  ElementMetrics elements;
  // Of the golden side: counts, extremes and squares of its finite elements.
  Summary golden;
  uint64_t closed_count = 0;  // Places that are closed on both sides.
};

// Takes a pair piece by piece, of any size, beside a PairAccumulator.
// Thread-compatible.
//
// A place is closed on a side if its element is -Inf, or the closing value of
// the side up to kClosingError, or twice that, where two masks were added. A
// place that is closed on both sides is treated as a pair of equal infinities,
// which no metric includes. A place that is closed on one side only counts like
// any other difference.
//
// Large activations can have the same values as closed places. So values are
// not enough: see Finish() for the evidence that a mask was added.
class OpenPairAccumulator {
 public:
  // What is added to a score may be this far from the closing value.
  static constexpr double kClosingError = 0x1p-7;
  // Open places have at most this share of the magnitude of closing values.
  static constexpr double kOpenShare = 0x1p-3;
  // Masks close many places. Massive activations are few.
  static constexpr double kClosedShare = 0x1p-3;

  // `request` has the closing values. Both types have such places.
  OpenPairAccumulator(DType target, DType golden,
                      const ElementRequest& request);

  // Takes the next elements, equally many on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  // Returns nothing unless all of this holds:
  // - Places are closed on both sides, and others are open. At least
  //   kClosedShare of all places are closed, or a softmax takes the scores.
  // - The closed places of a side differ by no more than the scores to which
  // the
  //   mask was added, judged by the open places, and by rounding.
  // - In a row without open places, both sides have -Inf or neither has. A
  //   softmax of such a row is NaN with -Inf only.
  // - No element lies between open and closed ones, and there are no NaN and no
  //   +Inf. A side does not have only twice its closing value.
  std::optional<OpenPairs> Finish() const;

 private:
  struct Side {
    DType dtype;
    double closing;
    bool has_single = false;  // Closed otherwise than by twice the value.
    bool has_double = false;
    // Of the finite elements that are closed by the value itself.
    double closed_min = std::numeric_limits<double>::infinity();
    double closed_max = -std::numeric_limits<double>::infinity();
    double open_max = 0;  // The largest magnitude of the open places.
    bool has_infinity_in_row = false;

    bool IsClosed(double value);
    bool IsStray(double value) const;
    // True if the closed places can be one value that was added to scores.
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
  uint64_t row_elements_ = 0;  // 0: all elements are one row.
  bool are_softmaxed_ = false;
  uint64_t place_count_ = 0;
  uint64_t closed_count_ = 0;
  uint64_t closed_in_row_ = 0;
  bool has_strays_ = false;
  bool has_other_rows_ = false;  // Closed rows, with -Inf on one side only.
};

}  // namespace msitd::compute
