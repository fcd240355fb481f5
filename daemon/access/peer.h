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

// The process at the other end of a Unix socket, as the kernel knew it when it
// connected.
struct Peer {
  pid_t pid = 0;  // 0 if it is not visible from here.
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // The supplementary ones.
  // False if the kernel has no number for its user here (OverflowIds), so that
  // `uid` may be that of anybody.
  bool is_known_user = true;

  // Adapts what the kernel reported: an unknown user is marked, and unknown
  // groups are removed; `gid` becomes kNoGroup if it is one.
  void RemoveUnknown(const OverflowIds& overflow);
  static constexpr gid_t kNoGroup = static_cast<gid_t>(-1);

  // "pid=1 uid=2 gid=3".
  std::string ToString() const;
};

// Reads who connected `socket`. If the kernel reports the number that stands
// for unknown users, but a signal of this process would reach the peer in a way
// that proves whose it is, the user is known; see peer.cc.
absl::StatusOr<Peer> GetPeer(int socket);
absl::StatusOr<Peer> GetPeer(int socket, const OverflowIds& overflow);

// True if GetPeer identifies processes of the user that this process runs as.
bool IdentifiesOwnUser();

// Returns a descriptor that becomes readable when the process ends. The socket
// does not tell that, because children may have copies of it. Invalid if the
// process cannot be watched.
UniqueFd WatchProcess(const Peer& peer);

}  // namespace msitd::access
