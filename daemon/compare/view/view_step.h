// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Maximum length of the text of a view, of its steps, and of the tensors that
// it reads, including the one that it replaces.
inline constexpr size_t kViewBytesMax = 1024;
inline constexpr size_t kViewStepsMax = 32;
inline constexpr size_t kViewLeavesMax = 16;

// Maximum number that a view may contain.
inline constexpr int64_t kViewNumberMax = int64_t{1} << 40;

// Maximum number of elements of a view: those of the tensors that it reads,
// times this factor, or kViewElementsMin if that is more. Rows can be repeated,
// so that a short text could otherwise stand for any number of elements.
inline constexpr uint64_t kViewGrowthMax = 16;
inline constexpr uint64_t kViewElementsMin = uint64_t{1} << 20;
inline constexpr uint64_t kViewElementsMax = uint64_t{1} << 50;

// Another tensor that a view reads. Absent parts are those of the tensor to
// which the view applies.
struct LeafName {
  std::string op = {};  // `*` stands for the match of a `*` of the pattern.
  std::optional<Io> io = {};
  std::optional<std::string> index = {};

  friend bool operator==(const LeafName&, const LeafName&) = default;
};

// A half-open range of positions. Absent ends are those of the dimension;
// negative ones count from its end.
struct ViewRange {
  std::optional<int64_t> begin = {};
  std::optional<int64_t> end = {};

  friend bool operator==(const ViewRange&, const ViewRange&) = default;
};

// One step of a view; see msitd.v1.View.view.
struct ViewStep {
  enum class Kind : uint8_t {
    kPermute,    // `numbers`: the dimensions in their new order.
    kTranspose,  // `numbers`: two dimensions.
    kReshape,    // `numbers`: the new shape.
    kFlatten,    // `numbers`: the first and the last dimension.
    kSlice,      // `dim`, `ranges`: one range.
    kSplit,      // `dim`, `numbers`: the sections; `part`, `groups`.
    kRows,       // `ranges`: the rows.
    kHeads,      // `part`: the number of heads.
    kRopePairs,  // `dim`.
    kConcat,     // `dim`, `leaves`.
    kSum,        // `leaves`.
    // `leaves`: the scale and possibly the zero point. `numbers`: the lengths
    // of the blocks, or none to derive them from the scale.
    kDequantize,
    kAnyOrder,  // `dim`. Always the last step.
  };

  Kind kind = Kind::kReshape;
  std::string text = {};  // As written, for messages.
  int64_t dim = 0;
  std::vector<int64_t> numbers = {};
  int64_t part = 0;
  int64_t groups = 1;
  std::vector<ViewRange> ranges = {};
  std::vector<LeafName> leaves = {};

  friend bool operator==(const ViewStep&, const ViewStep&) = default;
};

}  // namespace msitd::compare
