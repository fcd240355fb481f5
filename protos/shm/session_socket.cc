// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/session_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace msitd::shm {
namespace {

// Maximum number of descriptors that the kernel accepts in one packet
// (SCM_MAX_FD).
constexpr size_t kForeignFdsMax = 253;

// Memory for `count` descriptors with the alignment that cmsg requires.
template <size_t count, size_t more = 0>
union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(count * sizeof(int)) + more];
};

// More than the number of packets that fit into the buffer of a socket.
constexpr int kDiscardsMax = 4096;

// Without this, closing the last copy of a lingering TCP socket would wait for
// its peer.
void DoNotLinger(int fd) {
  const linger off{0, 0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
}

// Returns false if the packet has more descriptors than allowed; the excess
// ones are closed.
bool TakeDescriptors(msghdr& header, Packet& packet) {
  bool fits = true;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
       part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      // Takes ownership before any check, so that no descriptor leaks.
      UniqueFd owned(fd);
      DoNotLinger(fd);
      if (packet.fd_count < kPacketFdsMax) {
        packet.fds[packet.fd_count++] = std::move(owned);
      } else {
        fits = false;
      }
    }
  }
  return fits;
}

}  // namespace

ReceiveResult ReceivePacket(int socket, Packet& packet) {
  for (UniqueFd& fd : packet.fds) fd.reset();
  packet.fd_count = 0;
  packet.size = 0;
  iovec piece{packet.bytes.data(), packet.bytes.size()};
  // Has room for the maximum number of descriptors, because the kernel would
  // close excess descriptors itself and might linger.
  ControlBuffer<kForeignFdsMax> control;
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof(control.bytes);
  ssize_t received;
  do {
    received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? ReceiveResult::kNothing
                                                   : ReceiveResult::kClosed;
  }
  const bool fits = TakeDescriptors(header, packet);
  packet.size = static_cast<size_t>(received);
  if (!fits || received == 0 ||
      (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return ReceiveResult::kClosed;
  }
  return ReceiveResult::kPacket;
}

void DiscardPackets(int socket) {
  ::shutdown(socket, SHUT_RD);
  // With this option, every packet has credentials, even an empty one. The end
  // of the stream has none, so that the two can be distinguished.
  const int on = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  for (int i = 0; i < kDiscardsMax; ++i) {
    char byte;
    iovec piece{&byte, sizeof(byte)};
    ControlBuffer<kForeignFdsMax, CMSG_SPACE(sizeof(ucred))> control;
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    if (::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;
    }
    if (header.msg_controllen == 0) return;
    Packet packet;
    (void)TakeDescriptors(header, packet);
  }
}

bool SendPacket(int socket, std::span<const std::byte> message,
                std::span<const int> fds) {
  if (fds.size() > kPacketFdsMax) {
    errno = EINVAL;
    return false;
  }
  iovec piece{const_cast<std::byte*>(message.data()), message.size()};
  ControlBuffer<kPacketFdsMax> control;
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    std::memset(&control, 0, sizeof(control));
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

UniqueFd ConnectSession(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return UniqueFd();
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  UniqueFd fd(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
    // Closing may overwrite errno.
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

}  // namespace msitd::shm
