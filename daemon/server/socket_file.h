// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::server {

// Prepares `path` for a Unix socket of type `socket_type`, SOCK_STREAM or
// SOCK_SEQPACKET: creates its directory, and removes an existing socket if no
// process listens on it.
//
// Errors: FAILED_PRECONDITION if a process listens on it, or if the existing
// file is not a socket; those of the file system.
absl::Status PrepareSocketFile(const std::string& path, int socket_type);

// Writes `text` to `path` so that a reader sees either all of it or the
// previous file. Does not follow symbolic links, neither at `path` nor at the
// temporary file.
absl::Status ReplaceFile(const std::string& path, const std::string& text);

}  // namespace msitd::server
