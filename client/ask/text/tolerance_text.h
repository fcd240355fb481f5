// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_policy.pb.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// Returns true if a row does not satisfy the bound of the policy.
bool IsViolated(const v1::RequiredTolerance& needed);

// Returns the bound that all rows would satisfy, in the syntax of `--tol`, and
// the row that determines it: `nl2 <= 0.0126624, is 0.005; row 973`. The bound
// has six digits, rounded so that all rows satisfy it.
std::string RequiredToleranceText(const v1::RequiredTolerance& needed);

// Returns these texts for all bounds that some row does not satisfy. A relative
// bound gets an absolute alternative if the golden tensor is zero, because no
// relative bound can be satisfied: `(nl2 <= 0.01 or max_abs <= 6.80299e-10), is
// 0.01; row 57`.
std::vector<std::string> RequiredToleranceTexts(
    const v1::Comparison& comparison);

// Returns the label of those texts: "would pass" if the comparison would pass
// with all of these bounds, else "needs at least".
const char* RequiredToleranceLabel(const v1::Comparison& comparison);

// Returns the rows that would not pass with any bound; empty if there are none.
std::string HopelessText(const v1::Comparison& comparison);

}  // namespace msitd::ask
