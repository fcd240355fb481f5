// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/hypothesis.h"

// Masks that are added to scores.
namespace msitd::compare::explain {

struct OpenScores {
  // The op with 0 for the elements that a mask closes in either run, because
  // they would dominate the norms. nullopt if there is no mask.
  std::optional<ExaminedOp> op;
  // The explanation if the runs close other elements and the others agree.
  std::optional<Fit> mask;
};
OpenScores OpenScoresOf(const ExaminedOp& op);

// Returns how a table of booleans differs if it is an attention mask: in each
// row of both tensors, the true or the false elements are adjacent, and there
// are several rows. nullopt for any other.
std::optional<Fit> BooleanMaskOf(const ExaminedOp& op);

}  // namespace msitd::compare::explain
