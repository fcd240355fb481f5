// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::msit {

// Variables of a child: what becomes of them by name; no value removes one.
using Environment = std::map<std::string, std::optional<std::string>>;

// Splits the command of --exec at white space; there are no quotes and no
// shell. INVALID_ARGUMENT if it is empty, or has a character other than
// letters, digits and `_-./=:,[]`, and `;` behind the first word.
absl::StatusOr<std::vector<std::string>> SplitCommand(std::string_view text);

// RESOURCE_EXHAUSTED if the file system of `folder`, or of what there is of it,
// has less than 2 GiB left, which is what msit asks for before it records;
// PERMISSION_DENIED if nothing can be written there.
absl::Status CheckRoom(const std::string& folder);

// Puts `library` in front of those that the child loads first.
void Preload(const std::string& library, Environment& environment);

// Runs a command with the environment of this process, as `changes` alter it,
// and waits for its end. The terminal's signals are the child's; SIGTERM and
// SIGHUP are passed on. Returns its exit code, 128 + N if signal N ended it.
// NOT_FOUND or the error of the system if it cannot be started. Call it on the
// main thread, one at a time.
absl::StatusOr<int> RunCommand(const std::vector<std::string>& words,
                               const Environment& changes);

}  // namespace msitd::msit
