// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::storage {

// Fills `copy`, which exists and is empty, with a database that can be opened
// for reading: the one in `directory`, which another process is changing, as a
// crash of that process would have left it at some moment of the call. Logs
// and the manifest are copied, a few write buffers and some MiB; tables are
// linked to, and may be taken away until they are open.
//
// Errors: NOT_FOUND if `directory` holds no database; UNAVAILABLE if the
// manifest was replaced meanwhile; those of the files.
absl::Status CopyLiveDatabase(const std::string& directory,
                              const std::string& copy);

}  // namespace msitd::storage
