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

// Longer rows of scores are not looked at.
inline constexpr uint64_t kScoresWidthMax = uint64_t{1} << 20;

// What may still be looked at of a group. Beyond it, nothing is explained.
struct ChoiceBudget {
  int pairs = 64;                             // Of integers that differ.
  uint64_t score_bytes = uint64_t{64} << 20;  // Of both runs.
};

// Where both sides of a pair are.
struct PairRuns {
  storage::RunReader& golden;
  storage::RunReader& target;
};

// Reads two pairs, of choices and of what may be their scores, and returns what
// these say of the choices. Of the scores, one row of either run is held at a
// time. The pairs have the shapes that OriginFinder::ScoresOfNext asks for.
// Takes the bytes of the scores from `budget`.
//
// Errors: FAILED_PRECONDITION if a type is not one that choices or scores have;
// RESOURCE_EXHAUSTED if the budget is; CANCELLED once the observer says so;
// those of StoredSource and TensorStream.
absl::StatusOr<ChoiceOutcome> ReadChoices(const TensorPair& choices,
                                          const TensorPair& scores,
                                          const PairRuns& runs,
                                          ChoiceBudget& budget,
                                          WorkObserver& observer);

}  // namespace msitd::compare
