// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/child_command.h"

namespace msitd::msit_command {

// Splits the command of --exec at white space, without quotes and without a
// shell. Returns INVALID_ARGUMENT if it is empty or contains a character other
// than letters, digits and `_-./=:,[]`, and `;` after the first word.
absl::StatusOr<std::vector<std::string>> SplitCommand(std::string_view text);

// Returns RESOURCE_EXHAUSTED if the file system of `folder`, or of its existing
// parent, has less than 2 GiB left, which msit requires before it records, and
// PERMISSION_DENIED if nothing can be written there.
absl::Status CheckRoom(const std::string& folder);

// Puts `library` before the other libraries that the child preloads.
void Preload(const std::string& library, ask::Environment& environment);

}  // namespace msitd::msit_command
