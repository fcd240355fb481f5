// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Larger tensors are not looked at.
inline constexpr uint64_t kSelectedBytesMax = uint64_t{64} << 20;

// Rows that two runs selected from a tensor, as a router does for an expert.
struct SelectionOutcome {
  // Both runs have selected rows of the tensor, bit for bit.
  bool is_selection = false;
  // Rows that only one run has selected, and how many of them have scores of
  // which no two are so near that what they differ by can change their order.
  uint64_t other_count = 0;
  uint64_t unexplained_count = 0;
};

// Reads `selected`, the tensor `from` that its rows are of, and the scores that
// each of these rows has. `from` and `scores` have equally many rows and their
// shapes do not differ between the runs. It is not known which score stands for
// this selection. A row counts as explained if any two neighbouring golden
// scores are no further apart than twice the largest difference of the scores
// of the row, which proves nothing. Equal scores explain nothing.
//
// Errors: FAILED_PRECONDITION for types that are no scores and for large
// tensors; otherwise as ReadChoices.
absl::StatusOr<SelectionOutcome> ReadSelection(const TensorPair& selected,
                                               const TensorPair& from,
                                               const TensorPair& scores,
                                               const PairRuns& runs,
                                               WorkObserver& observer);

}  // namespace msitd::compare
