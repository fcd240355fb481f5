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

// More choices than this are not explained, and no scores of more elements are
// looked at.
inline constexpr uint64_t kChoicesMax = uint64_t{1} << 20;
inline constexpr uint64_t kScoredMax = uint64_t{1} << 28;

// Where both sides of a pair are.
struct PairRuns {
  storage::RunReader& golden;
  storage::RunReader& target;
};

// Reads two pairs, of choices and of what may be their scores, and returns what
// these say of the rows of choices that differ; the first rows count anyhow, to
// see whether golden chose by these scores. Of the scores, one row of either
// run is held at a time. The pairs have the shapes that
// OriginFinder::ScoresOfNext asks for.
//
// Errors: FAILED_PRECONDITION if a type is not one that choices or scores have,
// or there are too many; CANCELLED once the observer says so; those of
// StoredSource and TensorStream.
absl::StatusOr<ChoiceOutcome> ReadChoices(const TensorPair& choices,
                                          const TensorPair& scores,
                                          const PairRuns& runs,
                                          WorkObserver& observer);

// Returns the unit roundoff of the coarser type of a pair of floats.
double RoundoffOf(const TensorPair& scores);

}  // namespace msitd::compare
