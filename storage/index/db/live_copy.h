// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::storage {

// Copies the database in `directory`, which another process is modifying, to
// the empty directory `copy`. The copy can be opened for reading; it equals the
// state after a crash of that process at some moment of the call. Logs (a few
// write buffers) and the manifest (some MiB) are copied. Tables are links and
// may vanish until they are opened.
//
// Errors: NOT_FOUND if `directory` has no database; UNAVAILABLE if the manifest
// was replaced during the call; those of the files.
absl::Status CopyLiveDatabase(const std::string& directory,
                              const std::string& copy);

}  // namespace msitd::storage
