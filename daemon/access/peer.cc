// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/peer.h"

#include <linux/capability.h>
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

namespace {

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool MaySignalAnybody() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return true;
  return (data[CAP_TO_INDEX(CAP_KILL)].effective & CAP_TO_MASK(CAP_KILL)) != 0;
}

// Returns whether this process can identify a peer whose user is reported as
// `overflow.user`. The id means "a user without an id here", but a container
// may also have a real user with that id. The kernel reports both in the same
// way everywhere: in credentials, in /proc and in stat().
//
// Permission to send a signal distinguishes the two cases, because the kernel
// checks it against the real users instead of their ids in this namespace:
// - Without CAP_KILL, a process may signal only processes of its own user.
// - With CAP_KILL, which is limited to its user namespace, a process may signal
//   all processes in the namespace. Those belong to users of the namespace, so
//   the id is that of a user if the namespace has such a user.
//
// The peer is signalled through the process descriptor of its socket, because
// its process id may have been reused. The descriptor requires Linux 6.5; with
// an older kernel such a peer is never identified.
bool IsIdentified(int socket, const OverflowIds& overflow) {
  const bool is_own_user = ::geteuid() == *overflow.user;
  if (MaySignalAnybody() ? !overflow.user_is_mapped : !is_own_user) {
    return false;
  }
  int raw = -1;
  socklen_t size = sizeof(raw);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &raw, &size) != 0) {
    return false;
  }
  const UniqueFd process(raw);
  return ::syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0) == 0;
}

}  // namespace

absl::StatusOr<Peer> GetPeer(int socket) {
  static const OverflowIds overflow = OverflowIds::Read();
  return GetPeer(socket, overflow);
}

bool IdentifiesOwnUser() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return true;
  }
  const UniqueFd near(fds[0]);
  const UniqueFd far(fds[1]);
  const absl::StatusOr<Peer> peer = GetPeer(near.get());
  return !peer.ok() || peer->is_known_user;
}

absl::StatusOr<Peer> GetPeer(int socket, const OverflowIds& overflow) {
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
  peer.RemoveUnknown(overflow);
  if (!peer.is_known_user) {
    peer.is_known_user = IsIdentified(socket, overflow);
  }
  return peer;
}

UniqueFd WatchProcess(const Peer& peer) {
  if (peer.pid <= 0) return UniqueFd();
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace msitd::access
