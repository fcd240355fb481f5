// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/compare/judge/choices.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Scores with longer rows are not read.
inline constexpr uint64_t kScoresWidthMax = uint64_t{1} << 20;

// The remaining amount of data that may be read for the choices of a group.
// Choices beyond these limits are not explained.
struct ChoiceBudget {
  int pairs = 64;  // Pairs of integers that differ.
  uint64_t score_bytes = uint64_t{64}
                         << 20;  // Bytes of scores, for both runs together.
};

// The readers of the two sides of a pair.
struct PairRuns {
  storage::RunReader& golden;
  storage::RunReader& target;
};

// Returns whether the elements of a tensor can be examined. Tensors of several
// ranks are not read.
inline bool IsReadable(const LogicalTensor& tensor) {
  return tensor.has_bytes && tensor.assembly == nullptr;
}

// Reads a pair of choices and a pair of tensors that may be their scores.
// Returns whether the scores explain the choices. The pairs must have the
// shapes that OriginFinder::ScoresOfNext requires. Only one row of scores of
// each run is in memory at a time. Subtracts the bytes of the scores from
// `budget`.
//
// Errors: FAILED_PRECONDITION if a type is not one of choices or scores;
// RESOURCE_EXHAUSTED if the scores exceed the budget or kScoresWidthMax;
// CANCELLED if the observer returns it; those of StoredSource and TensorStream.
absl::StatusOr<ChoiceOutcome> ReadChoices(const TensorPair& choices,
                                          const TensorPair& scores,
                                          const PairRuns& runs,
                                          ChoiceBudget& budget,
                                          WorkObserver& observer);

}  // namespace msitd::compare
