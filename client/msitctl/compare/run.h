// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/compare_flags.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Creates a comparison, waits for its end and prints it. The exit code is 1 if
// the comparison does not pass, or a watch holds for a row. With --follow, rows
// are printed as they arrive. Plug-ins measure rows before they are printed. An
// interrupt and --timeout cancel the comparison.
ask::Outcome RunComparison(Invocation& invocation, const CompareFlags& flags);

}  // namespace msitd::msitctl
