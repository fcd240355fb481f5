// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/view/any_order.h"
#include "protos/base/dtype.h"

// Finds which row of the target tensor belongs to which row of the golden
// tensor, if both have the same rows in different orders.
//
// A wrong row must never be hidden. The result is therefore a permutation: each
// row of either side is used exactly once, and the caller measures the pair as
// if the target had that order, with all elements and the usual metrics. A bad
// match can only make the error look larger, so that the search may be fast
// instead of exhaustive:
//
// 1. Rows with equal values are matched by hash.
// 2. For the other rows, the golden columns are scaled to a common deviation,
//    so that a few large channels do not hide the others, and each row is
//    projected to a point of at most kProjections coordinates. Each golden row
//    receives the most similar row among the target rows near its point
//    (PointTree), if both differ by no more than a tolerance. Rows of one
//    element are matched in the order of their values instead.
// 3. Rows that are left over are matched as in step 2, without a tolerance.
//    These are the rows without a partner, which the caller reports.
//
// If rows are so dense that each is within the tolerance of many others, step 2
// may leave over a few rows although another assignment would match them.
//
// Takes O(n log n) time for n rows, and memory for about 100 bytes a row.
namespace msitd::compare {

// Number of rows without a partner that are listed for each side.
inline constexpr size_t kAloneRowsMax = 8;

// One side: the bytes of a tensor in row-major order.
struct RowSide {
  std::span<const std::byte> bytes;
  DType dtype = DType::kUnspecified;
};

struct RowMatch {
  std::vector<uint32_t> partners;  // The target row of each golden row.
  uint64_t moved_count = 0;        // Rows whose partner has another number.
  uint64_t alone_count = 0;        // Golden rows without a partner.
  // The first of these rows, in ascending order.
  std::vector<uint32_t> alone_golden;
  std::vector<uint32_t> alone_target;
};

// Matches the rows of two tensors of the same number of elements, both or
// neither of which are complex. Two rows are partners if the Euclidean norm of
// their difference is at most `tolerance` times the norm of the golden row, or
// times the median norm of the golden rows if that is larger. NaN is equal to
// NaN, and an infinity to itself.
//
// Errors: those of `check`, which is called every few milliseconds.
absl::StatusOr<RowMatch> MatchRows(const RowSide& golden, const RowSide& target,
                                   const RowSlices& rows, double tolerance,
                                   absl::FunctionRef<absl::Status()> check);

}  // namespace msitd::compare
