// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/compare/shard/assembly.h"

// Pairs whose rows may be in any order (the step `any_order` of a view).
//
// Code that distributes rows, such as the dispatch to the experts of a model,
// may give two runs equal rows in different orders. Such a pair is compared as
// if the rows of the target were in the order of the golden tensor. Which row
// belongs to which one is only known after both tensors were read, so that a
// plan of a view cannot express it; the rows are matched when the pair is
// measured (daemon/compare/measure/row_matcher.h).
namespace msitd::compare {

// Limits for pairs that are compared in any order, because they are read into
// memory: the size of both tensors together, and their number of rows.
inline constexpr uint64_t kAnyOrderBytesMax = uint64_t{1} << 30;
inline constexpr uint64_t kAnyOrderRowsMax = uint64_t{1} << 22;

// The rows of a tensor of `outer * count * inner` elements in row-major order.
// Row i consists of the runs of `inner` elements at position i of each of the
// `outer` blocks.
struct RowSlices {
  uint64_t outer = 1;
  uint64_t count = 0;
  uint64_t inner = 1;

  uint64_t width() const { return outer * inner; }

  friend bool operator==(const RowSlices&, const RowSlices&) = default;
};

// How to compare a pair in any order.
struct AnyOrder {
  RowSlices rows;
  // The largest relative difference of two rows that belong together; see
  // MatchRows.
  double tolerance = 0;
};

// Returns whether the rows of the pair may be in any order: at least one side
// has the step. Both sides must have views that fit, or none.
bool IsInAnyOrder(const LogicalTensor& golden, const LogicalTensor& target);

// Returns the rows of such a pair, whose tensors must have equally many
// elements. If only one side has the step, its rows are also those of the
// other side. Returns nothing if AnyOrderProblem is not empty.
std::optional<RowSlices> AnyOrderRows(const LogicalTensor& golden,
                                      const LogicalTensor& target);

// Returns why such a pair cannot be compared; empty if it can.
std::string AnyOrderProblem(const LogicalTensor& golden,
                            const LogicalTensor& target);

}  // namespace msitd::compare
