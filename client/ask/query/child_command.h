// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::ask {

// Changes to the environment of a child, by variable. No value removes a
// variable.
using Environment = std::map<std::string, std::optional<std::string>>;

// Returns texts in the form that exec requires, terminated by null. Borrows
// them.
std::vector<char*> Pointers(std::vector<std::string>& texts);

// Runs a command with the environment of this process, modified by `changes`,
// and waits for it. SIGTERM and SIGHUP are forwarded. SIGINT and SIGQUIT are
// forwarded only if they were sent to this process, because the child also
// receives signals of the terminal and of the group. Returns the exit code, 128
// + N if signal N ended the command. Returns NOT_FOUND or a system error if it
// cannot be started. Must be called on the main thread, one call at a time.
absl::StatusOr<int> RunCommand(const std::vector<std::string>& words,
                               const Environment& changes);

}  // namespace msitd::ask
