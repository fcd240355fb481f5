// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

constexpr uint32_t kDefaultOverflowId = 65'534;
// All but -1, which is no number of a user.
constexpr uint64_t kIdCount = 0xffff'ffff;

// True if the map of a user namespace covers all numbers.
bool MapsAll(const char* path) {
  std::ifstream file(path);
  uint64_t mapped_count = 0;
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  while (file >> inside >> outside >> count) mapped_count += count;
  return mapped_count >= kIdCount;
}

uint32_t OverflowId(const char* path) {
  std::ifstream file(path);
  uint32_t id = kDefaultOverflowId;
  // A failed read would set it to 0, which is root.
  return file >> id ? id : kDefaultOverflowId;
}

}  // namespace

UnmappedIds ReadUnmappedIds() {
  UnmappedIds out;
  if (!MapsAll("/proc/self/uid_map")) {
    out.uid = OverflowId("/proc/sys/kernel/overflowuid");
  }
  if (!MapsAll("/proc/self/gid_map")) {
    out.gid = OverflowId("/proc/sys/kernel/overflowgid");
  }
  return out;
}

std::string Peer::ToString() const {
  return fmt::format("pid={} uid={} gid={}", pid, uid, gid);
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
  return peer;
}

UniqueFd WatchProcess(const Peer& peer) {
  if (peer.pid <= 0) return UniqueFd();
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace msitd::access
