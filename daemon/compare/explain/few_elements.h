// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/explanation.h"

namespace msitd::compare::explain {

// Returns the factor, or the order, that explains why the target differs, for a
// tensor of fewer than kExaminedElementsMin elements, such as a loss.
//
// Any factor explains a single number, so only those that mistakes have are
// accepted, and only if the numbers agree to 6 digits: -1, integers up to 1024
// and powers of 2, such as numbers of tokens, ranks and steps, ratios of small
// integers, and the inverses of all of these. Fewer than 1 in 200 other factors
// is one of these by chance. Tensors of types with fewer digits are not
// explained, and neither are whole numbers, which often have such ratios.
//
// Integers, such as the slots of requests, are explained by another order if
// all of them differ from each other.
std::optional<Explanation> ExplainFew(const ExaminedOp& op);

}  // namespace msitd::compare::explain
