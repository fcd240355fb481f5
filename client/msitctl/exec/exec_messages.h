// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// Returns the outcome of a failure of exec itself, not of its command.
ask::Outcome ExecFailure(std::string message);

// Prints a line on stderr, where the command prints too.
void ExecNote(const std::string& text);

}  // namespace msitd::msitctl
