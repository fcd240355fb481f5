// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::access {

// The process at the other end of a Unix socket, as the kernel knew it when it
// connected.
struct Peer {
  pid_t pid = 0;  // 0 if it is not visible from here.
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // The supplementary ones.

  // "pid=1 uid=2 gid=3".
  std::string ToString() const;
};

absl::StatusOr<Peer> GetPeer(int socket);

// Numbers that stand for every user, or group, that the user namespace of this
// process does not map. Null if it maps all of them, as outside of containers.
struct UnmappedIds {
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
};
// Reads them from the kernel. Where that fails, they are the kernel's default.
UnmappedIds ReadUnmappedIds();

// Returns a descriptor that becomes readable when the process ends. The socket
// does not tell that, because children may have copies of it. Invalid if the
// process cannot be watched.
UniqueFd WatchProcess(const Peer& peer);

}  // namespace msitd::access
