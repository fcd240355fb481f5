// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/watch/file_states.h"

namespace msitd::watch {

// Fills `stamp`; false if there is no file at `path`.
bool ReadStamp(const std::string& path, FileStamp* stamp);

// What the readers of client/foreign/formats find. A file that no reader takes
// does not say its length. `folders` is for many files.
Length ProbeLength(const std::string& path, formats::AtbFolders& folders,
                   std::string* reason);

}  // namespace msitd::watch
