// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::ask {

// Variables of a child: what becomes of them by name; no value removes one.
using Environment = std::map<std::string, std::optional<std::string>>;

// Returns texts as exec takes them: null is behind the last. Borrows them.
std::vector<char*> Pointers(std::vector<std::string>& texts);

// Runs a command with the environment of this process, as `changes` alter it,
// and waits for its end. SIGTERM and SIGHUP are passed on; so are SIGINT and
// SIGQUIT that were sent to this process alone: those of a terminal, or to the
// group, are the child's already. Returns its exit code, 128 + N if signal N
// ended it.
// NOT_FOUND or the error of the system if it cannot be started. Call it on the
// main thread, one at a time.
absl::StatusOr<int> RunCommand(const std::vector<std::string>& words,
                               const Environment& changes);

}  // namespace msitd::ask
