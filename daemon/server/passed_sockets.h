// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "protos/os/unique_fd.h"

// Unix sockets that the service manager listens on and passes to the service,
// as described in sd_listen_fds(3). Clients that connect while no daemon runs
// wait in the queues of these sockets. The service manager is responsible for
// the files, their modes and their owners.
namespace msitd::server {

// Closes the passed sockets that are at none of `paths`, and returns their
// descriptors in a form for the log. Must be called before the process opens
// any file, because wrong environment variables could make it close that file.
std::vector<std::string> CloseForeignSockets(
    std::span<const std::string> paths);

// Returns the passed socket that listens at `path` with type `socket_type`
// (SOCK_STREAM or SOCK_SEQPACKET), or an invalid descriptor. Must be called at
// most once per path. The socket is non-blocking.
UniqueFd TakePassedSocket(const std::string& path, int socket_type);

}  // namespace msitd::server
