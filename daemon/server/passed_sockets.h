// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "protos/os/unique_fd.h"

// Unix sockets that the service manager listens on and passes to its service,
// as sd_listen_fds(3) describes. Who connects while no daemon runs waits in
// their queues for the next one. Their files, modes and owners are the business
// of the service manager.
namespace msitd::server {

// Closes what was passed and is at none of `paths`, and returns the descriptors
// as a log names them. To be called before this process opens anything, whose
// descriptor a wrong environment could take for a passed one.
std::vector<std::string> CloseForeignSockets(
    std::span<const std::string> paths);

// Returns the one that listens at `path` and is of type `socket_type`,
// SOCK_STREAM or SOCK_SEQPACKET, or nothing. To be called once for each path.
// Accepting on it does not block.
UniqueFd TakePassedSocket(const std::string& path, int socket_type);

}  // namespace msitd::server
