// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

namespace msitd::storage {

// The exit codes of msitd-inspect.
enum class InspectExit : int {
  kOk = 0,
  kProblems = 1,
  kUsage = 2,
  kCannotOpen = 3,  // Also if the store cannot be read to the end.
};

// Parses the command line of msitd-inspect and executes the command. Writes
// data to `out`, and errors and help for wrong usage to `err`.
InspectExit RunInspect(int argc, const char* const* argv, std::ostream& out,
                       std::ostream& err);

}  // namespace msitd::storage
