// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

class Invocation;

// Completes the name of a comparison as users type it. `c-9` becomes
// `c-000009`, and `c-9@node1:7741` becomes `c-000009@node1:7741`. `latest` and
// `-1` stand for the newest comparison of the daemon, and `-2` for the one
// before it. Any other text remains as it is, and the daemon reports it.
//
// Errors: a usage error if there are not so many comparisons, or if `latest` or
// a number is used with several daemons; those of ListComparisons.
ask::Outcome CompleteComparisonName(Invocation& invocation, std::string& name);

}  // namespace msitd::msitctl
