// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/ask/print/terminal.h"
#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// Prints `question` on stderr and reads the answer from stdin. Only "y" and
// "yes" are affirmative. If stdin or stderr is not a terminal, returns a usage
// error that requires --yes.
ask::Outcome Confirm(const ask::Terminal& terminal, std::string_view question);

}  // namespace msitd::msitctl
