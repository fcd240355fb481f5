// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_policy.pb.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// True if some row does not satisfy the bound as it is.
bool IsViolated(const v1::RequiredTolerance& needed);

// Returns the bound in a form that `--tol` takes, with six digits that are
// rounded so that all rows satisfy it, and where it comes from:
// `nl2 <= 0.0126624, is 0.005; row 973`.
std::string RequiredToleranceText(const v1::RequiredTolerance& needed);

// Returns these texts of the bounds that some row does not satisfy. Where the
// golden tensor is zero and no bound of a metric would ask for anything, it has
// an alternative: `(nl2 <= 0.01 or max_abs <= 6.80299e-10), is 0.01; row 57`.
std::vector<std::string> RequiredToleranceTexts(
    const v1::Comparison& comparison);

// Returns what such bounds are to the comparison: "would pass" if it would pass
// with all of them, else "needs at least".
const char* RequiredToleranceLabel(const v1::Comparison& comparison);

// Returns which rows no bound lets pass; empty if there are none.
std::string HopelessText(const v1::Comparison& comparison);

}  // namespace msitd::ctl
