// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::storage {

// Copies the database in `directory`, which another process is changing, into
// the empty directory `copy`. The copy can be opened for reading; it is the
// database as a crash of that process would have left it at some moment of the
// call. Logs (a few write buffers) and the manifest (some MiB) are copied.
// Tables are linked to, and may vanish until they are open.
//
// Errors: NOT_FOUND if `directory` holds no database; UNAVAILABLE if the
// manifest was replaced meanwhile; those of the files.
absl::Status CopyLiveDatabase(const std::string& directory,
                              const std::string& copy);

}  // namespace msitd::storage
