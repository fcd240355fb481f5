// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_policy.pb.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// True if some row does not satisfy the bound as the policy has it.
bool IsViolated(const v1::RequiredTolerance& needed);

// Returns the bound that all rows would satisfy, in a form that `--tol` takes,
// and where it comes from: `nl2 <= 0.0126624, is 0.005; row 973`. It has six
// digits, rounded so that all rows satisfy it.
std::string RequiredToleranceText(const v1::RequiredTolerance& needed);

// Returns these texts for all bounds that some row does not satisfy. A relative
// bound gets an absolute alternative if the golden tensor is zero, where no
// relative bound could serve: `(nl2 <= 0.01 or max_abs <= 6.80299e-10), is
// 0.01; row 57`.
std::vector<std::string> RequiredToleranceTexts(
    const v1::Comparison& comparison);

// Returns the label of those texts: "would pass" if the comparison would pass
// with all of these bounds, else "needs at least".
const char* RequiredToleranceLabel(const v1::Comparison& comparison);

// Returns which rows would not pass with any bound; empty if there are none.
std::string HopelessText(const v1::Comparison& comparison);

}  // namespace msitd::ask
