// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "protos/os/unique_fd.h"
#include "protos/shm/session_messages.h"

// Packets with file descriptors on the ingest socket. Standard library only.
// No function here blocks or raises SIGPIPE, regardless of the flags of the
// socket.
namespace msitd::shm {

// Maximum number of descriptors in one packet.
inline constexpr size_t kPacketFdsMax = 3;

// A packet as received, not validated.
struct Packet {
  std::array<std::byte, kSessionMessageBytesMax> bytes;
  size_t size = 0;
  std::array<UniqueFd, kPacketFdsMax> fds;
  size_t fd_count = 0;

  // Copies the message to `out` if the packet is a complete `Message` of this
  // version.
  template <typename Message>
  bool As(Message& out) const {
    Message message;
    if (size != sizeof(message)) return false;
    std::memcpy(static_cast<void*>(&message), bytes.data(), size);
    if (message.header.magic != kSessionMagic ||
        message.header.version != kSessionVersion ||
        message.header.type != Message::kType) {
      return false;
    }
    out = message;
    return true;
  }
};

enum class ReceiveResult {
  kPacket,
  kNothing,  // No packet is available.
  kClosed,   // Closed by the peer, or broken.
};

// Receives one packet. A packet above the limits counts as a broken socket.
// Descriptors beyond kPacketFdsMax are closed, and closing a descriptor never
// waits for its peer.
ReceiveResult ReceivePacket(int socket, Packet& packet);

// Receives and discards all packets in the queue, and prevents more from
// arriving. Closing the socket without this would leave it to the kernel to
// close their descriptors.
void DiscardPackets(int socket);

// Sends `message` with `fds`. Returns false with errno set on failure; errno is
// EAGAIN if the peer does not read.
bool SendPacket(int socket, std::span<const std::byte> message,
                std::span<const int> fds = {});

template <typename Message>
bool SendMessage(int socket, const Message& message,
                 std::span<const int> fds = {}) {
  return SendPacket(socket, std::as_bytes(std::span(&message, 1)), fds);
}

// Connects to the ingest socket at `path`. Returns an invalid descriptor, with
// errno set, on failure.
UniqueFd ConnectSession(const std::string& path);

}  // namespace msitd::shm
