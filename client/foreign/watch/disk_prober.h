// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/watch/file_states.h"

namespace msitd::watch {

// Fills `stamp`. Returns false if there is no file at `path`.
bool ReadStamp(const std::string& path, FileStamp* stamp);

// Returns the result of the readers in client/foreign/formats. The length of a
// file that no reader supports is unknown. `folders` is a cache for many files.
Length ProbeLength(const std::string& path, formats::AtbFolders& folders,
                   std::string* reason);

}  // namespace msitd::watch
