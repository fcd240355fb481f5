// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/open_connections.h"

// Defines more of tcp_info than <netinet/tcp.h>.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace msitd::server {
namespace {

constexpr size_t kIpv6PrefixBytes = 8;

// Returns the number of payload bytes that a TCP socket has received; 0 if the
// kernel does not report it.
uint64_t ReceivedBytes(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      length < offsetof(tcp_info, tcpi_bytes_received) +
                   sizeof(info.tcpi_bytes_received)) {
    return 0;
  }
  return info.tcpi_bytes_received;
}

}  // namespace

std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "";
  }
  if (address.ss_family == AF_INET) {
    const in_addr& v4 = reinterpret_cast<sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof(v4)};
  }
  if (address.ss_family != AF_INET6) return "";
  const in6_addr& v6 = reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
  const auto* const bytes = reinterpret_cast<const char*>(&v6);
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    return {bytes + sizeof(v6) - sizeof(in_addr), sizeof(in_addr)};
  }
  return {bytes, kIpv6PrefixBytes};
}

OpenConnections::OpenConnections(size_t connections_max, bool has_handshakes)
    : has_handshakes_(has_handshakes),
      handshakes_max_(std::max(connections_max / kHandshakeShare, kBoundMin)),
      address_handshakes_max_(
          std::max(handshakes_max_ / kAddressShare, kBoundMin)),
      address_max_(has_handshakes
                       ? std::max(connections_max / kAddressShare, kBoundMin)
                       : connections_max) {}

void OpenConnections::Add(int fd, const std::string& address,
                          Clock::time_point now) {
  connections_.push_back({HeldSocket(fd), fd, address, has_handshakes_,
                          now + kHandshakeTimeout,
                          has_handshakes_ ? ReceivedBytes(fd) : 0});
}

void OpenConnections::ForgetClosed() {
  std::erase_if(connections_, [](const Connection& connection) {
    return !connection.socket.IsOpen();
  });
}

OpenConnections::HandshakePlace OpenConnections::FindHandshakePlace(
    const std::string& address, Clock::time_point now) {
  if (!has_handshakes_) return HandshakePlace::kFree;
  size_t count = 0;
  size_t own_count = 0;
  for (Connection& connection : connections_) {
    if (!connection.is_handshake) continue;
    connection.is_handshake =
        now < connection.handshake_end && connection.socket.IsOpen() &&
        ReceivedBytes(connection.fd) <= connection.first_bytes;
    if (!connection.is_handshake) continue;
    ++count;
    if (connection.address == address) ++own_count;
  }
  if (count >= handshakes_max_) return HandshakePlace::kAllAreFull;
  return own_count < address_handshakes_max_ ? HandshakePlace::kFree
                                             : HandshakePlace::kAddressIsFull;
}

size_t OpenConnections::CountOf(const std::string& address) const {
  return static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(),
      [&address](const Connection& c) { return c.address == address; }));
}

}  // namespace msitd::server
