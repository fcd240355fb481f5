// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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
// the side up to kClosingError, or twice that, as where two masks meet. What is
// closed on both sides is taken for equal infinities, which enter no metric.
// What is closed on one side counts like any other difference.
class OpenPairAccumulator {
 public:
  // What is added to a score may be this far from the closing value.
  static constexpr double kClosingError = 0x1p-7;
  // Open places have at most this share of the magnitude of closing values.
  static constexpr double kOpenShare = 0x1p-3;

  // `request` has the closing values. Both types have such places.
  OpenPairAccumulator(DType target, DType golden,
                      const ElementRequest& request);

  // Takes the next elements, equally many on both sides.
  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden);

  // Nothing if this does not look like masked scores: no place is closed on
  // both sides, there are elements that are neither closed nor far from it, NaN
  // or +Inf, or a side has only twice its closing value.
  std::optional<OpenPairs> Finish() const;

 private:
  struct Side {
    DType dtype;
    double closing;
    bool has_single = false;  // Closed otherwise than by twice the value.
    bool has_double = false;

    bool IsClosed(double value);
    bool IsStray(double value) const;
  };

  void AddPiece(const std::byte* target, const std::byte* golden, size_t count);
  void AddToSummary(double golden);

  Side target_;
  Side golden_;
  PairAccumulator pairs_;
  std::optional<ElementAccumulator> elements_;
  std::vector<std::byte> target_copy_;
  std::vector<std::byte> golden_copy_;
  std::vector<double> targets_;
  std::vector<double> goldens_;
  Summary summary_;
  uint64_t closed_count_ = 0;
  bool has_strays_ = false;
};

}  // namespace msitd::compute
