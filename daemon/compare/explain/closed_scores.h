// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/hypothesis.h"

// Masks that are added to scores.
namespace msitd::compare::explain {

// Sets the elements that a mask closes to 0 in both tensors, because they would
// dominate their norms. If both runs close other elements and the others agree,
// returns that as the explanation.
std::optional<Fit> CloseMasked(ExaminedOp& op);

}  // namespace msitd::compare::explain
