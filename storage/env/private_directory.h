// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::storage {

enum class PrivateDepth {
  kFiles,  // The directory and the files directly in it.
  kAll,    // Also its subdirectories and their files.
};

// Takes the permissions of the group and of others from a directory and its
// regular files. A store made by an older version is readable by the group of
// the daemon, whose members may use the socket: they could read tensors without
// an audit line, or hold LOCK. `directory` itself may be a symbolic link; links
// inside it are not followed.
//
// Errors: those of the file system. The rest of the directory is made private
// even if one file cannot be; the first error is returned.
absl::Status MakePrivate(const std::string& directory, PrivateDepth depth);

}  // namespace msitd::storage
