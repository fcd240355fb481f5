// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>

namespace msitd::acl {

// What CANN is to dump.
struct DumpConfig {
  // An existing folder.
  const char* dump_path;
  // Null or empty: MindIE's.
  const char* model;
  // Names with commas between them. Null or empty: all ops.
  const char* ops;
};

// Writes the configuration that aclmdlSetDump reads into a new file of its own
// in the folder for temporary files, and its name into `path`. Returns false,
// with errno set, if it cannot; then there is no file.
bool WriteDumpConfig(const DumpConfig& config, char* path, size_t path_size);

// Returns the folder for temporary files.
const char* TemporaryFolder();

}  // namespace msitd::acl
