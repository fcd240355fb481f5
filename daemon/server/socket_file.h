// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace msitd::server {

// Makes way for a Unix socket at `path` of type `socket_type`, SOCK_STREAM or
// SOCK_SEQPACKET: makes its directory, and removes a socket that is there if
// nobody listens on it.
//
// Errors: FAILED_PRECONDITION if somebody listens, or if what is there is no
// socket; those of the file system.
absl::Status PrepareSocketFile(const std::string& path, int socket_type);

// Writes `text` to `path` so that a reader sees either all of it or the old
// file. Follows no symbolic link, neither at `path` nor where it writes first.
absl::Status ReplaceFile(const std::string& path, const std::string& text);

}  // namespace msitd::server
