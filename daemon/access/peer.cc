// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "protos/status/status.h"

namespace msitd::access {

std::string Peer::ToString() const {
  return fmt::format("pid={} uid={} gid={}", pid, uid, gid);
}

void Peer::RemoveUnknown(const OverflowIds& overflow) {
  is_known_user = uid != overflow.user;
  if (gid == overflow.group) gid = kNoGroup;
  std::erase_if(groups,
                [&overflow](gid_t each) { return each == overflow.group; });
}

absl::StatusOr<Peer> GetPeer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ErrnoStatus(errno, "credentials of the peer");
  }
  Peer peer{.pid = credentials.pid,
            .uid = credentials.uid,
            .gid = credentials.gid,
            .groups = {}};
  size = 0;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &size) != 0 &&
      errno == ERANGE) {
    peer.groups.resize(size / sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(),
                     &size) != 0) {
      peer.groups.clear();
    }
  }
  static const OverflowIds overflow = OverflowIds::Read();
  peer.RemoveUnknown(overflow);
  return peer;
}

UniqueFd WatchProcess(const Peer& peer) {
  if (peer.pid <= 0) return UniqueFd();
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace msitd::access
