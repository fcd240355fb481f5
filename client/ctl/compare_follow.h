// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "client/ctl/outcome.h"
#include "client/ctl/session.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// Prints rows of `comparison` as they come until it is over: a line each, or
// with JSON an object each. `verdicts` selects; none stands for all, null for
// no rows. Rows for which a watch holds are told on stderr whatever their
// verdict. Keeps `comparison` up to date. Picks up again where a restarted
// daemon lets it.
Outcome FollowComparison(Session& session,
                         const std::vector<v1::Verdict>* verdicts,
                         v1::Comparison& comparison);

}  // namespace msitd::ctl
