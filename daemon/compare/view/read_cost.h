// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "daemon/compare/view/view_plan.h"

namespace msitd::compare {

// The cost of reading a view.
//
// The elements of a view are computed in the order of the view, in pieces, and
// each piece needs a pass over the part of the tensors that its elements are
// from. Consecutive elements of a transposed matrix are from all over it, so
// that every piece needs a pass over the whole matrix. The number of bytes that
// are read then grows with the square of the size of the tensor. Large pieces
// make few passes, but the memory for a piece, and for the list of the runs of
// elements that it consists of, is bounded. Short runs, such as those of
// permute(2,1,0) with a short first dimension, end a pass long before a piece
// of the largest size is complete.

// Largest size of the elements of one pass.
inline constexpr uint64_t kPassBytesMax = uint64_t{32} << 20;
// Number of runs that one pass copies.
inline constexpr size_t kPassRunsMax = size_t{1} << 16;

// Maximum number of bytes that are read for a view, as a multiple of the size
// of its tensors. It is enough to transpose a matrix of 8 GiB, which reads 2
// TiB; a larger one would keep a comparison busy for hours.
inline constexpr uint64_t kViewReadsMax = 256;

// Returns about how often the tensors of a plan are read, rounded up. The
// estimate is that of the first pass of each term. Tensors of one part are read
// once, because the part stays in memory.
uint64_t EstimatedReads(const ViewPlan& plan, std::span<const ViewLeaf> leaves);

// Errors: FAILED_PRECONDITION if the tensors would be read more often than
// kViewReadsMax.
absl::Status CheckReadCost(const ViewPlan& plan,
                           std::span<const ViewLeaf> leaves);

}  // namespace msitd::compare
