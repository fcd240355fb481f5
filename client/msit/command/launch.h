// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/child_command.h"

namespace msitd::msit_command {

// Splits the command of --exec at white space; there are no quotes and no
// shell. INVALID_ARGUMENT if it is empty, or has a character other than
// letters, digits and `_-./=:,[]`, and `;` behind the first word.
absl::StatusOr<std::vector<std::string>> SplitCommand(std::string_view text);

// RESOURCE_EXHAUSTED if the file system of `folder`, or of what there is of it,
// has less than 2 GiB left, which is what msit asks for before it records;
// PERMISSION_DENIED if nothing can be written there.
absl::Status CheckRoom(const std::string& folder);

// Puts `library` in front of those that the child loads first.
void Preload(const std::string& library, ask::Environment& environment);

}  // namespace msitd::msit_command
