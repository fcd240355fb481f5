// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/ask/print/terminal.h"
#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// Asks `question` on stderr and reads the answer from stdin; only "y" and
// "yes" are one. Without a terminal on both sides this is a usage error that
// asks for --yes.
ask::Outcome Confirm(const ask::Terminal& terminal, std::string_view question);

}  // namespace msitd::msitctl
