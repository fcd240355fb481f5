// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/ctl/print/terminal.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Asks `question` on stderr and reads the answer from stdin; only "y" and
// "yes" are one. Without a terminal on both sides this is a usage error that
// asks for --yes.
Outcome Confirm(const Terminal& terminal, std::string_view question);

}  // namespace msitd::ctl
