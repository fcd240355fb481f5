// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>

namespace msitd::acl {

// The dumps that CANN is to write.
struct DumpConfig {
  // An existing folder.
  const char* dump_path;
  // Null or empty: the model name of MindIE.
  const char* model;
  // Names separated by commas. Null or empty: all ops.
  const char* ops;
};

// Writes the configuration that aclmdlSetDump reads into a new temporary file,
// and the name of the file into `path`. On failure, returns false, sets errno
// and leaves no file.
bool WriteDumpConfig(const DumpConfig& config, char* path, size_t path_size);

// Returns the folder for temporary files.
const char* TemporaryFolder();

}  // namespace msitd::acl
