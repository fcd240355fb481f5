// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::msit_command {

// Finds mistakes in the paths of two dumps before anything is read, because a
// comparison may take hours, and two equal paths produce a report without
// differences. Both paths are absolute folders. Returns INVALID_ARGUMENT with
// the correction if
// - both are the same folder, or the folder with a dump of GE also contains the
//   other dump, which would then be compared with itself,
// - a folder contains no files,
// - the golden side is a dump of GE and the other one a dump of FX.
absl::Status CheckSides(const std::string& golden, const std::string& my);

}  // namespace msitd::msit_command
