// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Tensors that are larger than this are not read.
inline constexpr uint64_t kSelectedBytesMax = uint64_t{64} << 20;

// How the rows differ that both runs selected from a tensor, for example those
// that a router selects for an expert.
struct SelectionOutcome {
  // True if the rows of each run are rows of the tensor, bit for bit.
  bool is_selection = false;
  // Rows that only one run has selected.
  uint64_t other_count = 0;
  // Rows that both have selected and that are at another place among these.
  uint64_t moved_count = 0;
  // The rows among these that are not explained by scores that are nearly
  // equal.
  uint64_t unexplained_count = 0;
};

// Reads the pair `selected`, the pair `from` that its rows were selected from,
// and the scores by which they may have been selected. `from` and `scores` must
// have the same number of rows, and their shapes must not differ between the
// runs. If only the golden run has `selected`, the target run has selected no
// rows.
//
// `column` has the score for the selection in each row; nullopt if that is not
// known. A row counts as explained if its golden score and another one differ
// by at most twice the largest difference between the scores of the row in both
// runs. Without a column, any two neighboring scores of the row are sufficient,
// which is weak evidence: among many scores, some are always close. A row with
// equal scores in both runs is not explained. Routers often select the rows
// that prefer an expert before those for which it is the second choice, so
// nearly equal scores can also change the order. All other rows must keep
// theirs.
//
// Errors: FAILED_PRECONDITION if a tensor is too large or has a type that
// scores do not have; otherwise as for ReadChoices.
absl::StatusOr<SelectionOutcome> ReadSelection(const TensorPair& selected,
                                               const TensorPair& from,
                                               const TensorPair& scores,
                                               std::optional<uint64_t> column,
                                               const PairRuns& runs,
                                               WorkObserver& observer);

}  // namespace msitd::compare
