// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/overflow_ids.h"
#include "protos/os/unique_fd.h"

namespace msitd::access {

// The process at the other end of a Unix socket, as recorded by the kernel when
// it connected.
struct Peer {
  pid_t pid = 0;  // 0 if the process is not visible here.
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // Supplementary groups.
  // False if the user has no id in this namespace (see OverflowIds), so that
  // `uid` may stand for any user.
  bool is_known_user = true;

  // Removes ids that identify nobody: an unknown user sets `is_known_user` to
  // false, unknown groups are removed, and an unknown `gid` becomes kNoGroup.
  void RemoveUnknown(const OverflowIds& overflow);
  static constexpr gid_t kNoGroup = static_cast<gid_t>(-1);

  // Returns text such as "pid=1 uid=2 gid=3".
  std::string ToString() const;
};

// Returns the peer that connected `socket`. If the kernel reports the id that
// stands for unknown users, the user still counts as known if permission to
// signal the peer proves who it is; see peer.cc.
absl::StatusOr<Peer> GetPeer(int socket);
absl::StatusOr<Peer> GetPeer(int socket, const OverflowIds& overflow);

// Returns whether GetPeer can identify processes of the user that runs this
// process.
bool IdentifiesOwnUser();

// Returns a descriptor that becomes readable when the process ends. The socket
// does not indicate this because child processes may hold copies of it. The
// descriptor is invalid if the process cannot be watched.
UniqueFd WatchProcess(const Peer& peer);

}  // namespace msitd::access
