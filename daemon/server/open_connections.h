// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/server/held_socket.h"

namespace msitd::server {

// Returns the network address at the other end of a socket, which counts as one
// peer: an IPv4 address, or the first 64 bits of an IPv6 address, since a host
// may have all of the others. Empty for a Unix socket.
std::string PeerAddress(int fd);

// The connections that gRPC has, of one group of listeners.
//
// Anybody who reaches a TLS port can begin a handshake and say no more. gRPC
// ends such a connection only after kHandshakeTimeout, and does not report when
// a handshake is done. So a connection counts as a handshake until that time
// has passed, or until the peer has sent something after its first message,
// which is what a client does to end its handshake. Handshakes have a bound of
// their own, so that they cannot use up the connections, and an address has
// only a part of both. A peer that fakes progress is left with its part of the
// connections.
//
// Thread-compatible.
class OpenConnections {
 public:
  using Clock = std::chrono::steady_clock;

  // After that, gRPC closes a connection whose handshake is not done.
  static constexpr std::chrono::milliseconds kHandshakeTimeout{5000};
  // Handshakes are at most one in so many of all connections.
  static constexpr size_t kHandshakeShare = 4;
  // One address has at most one in so many handshakes, and connections.
  static constexpr size_t kAddressShare = 4;
  // No bound is less, however few descriptors there are.
  static constexpr size_t kBoundMin = 4;

  // Without `has_handshakes`, addresses do not count.
  OpenConnections(size_t connections_max, bool has_handshakes);

  // gRPC gets the socket, an open one that has received its first bytes.
  void Add(int fd, const std::string& address, Clock::time_point now);
  void ForgetClosed();

  // Whether one more handshake with the address may begin, or why not.
  enum class HandshakePlace { kFree, kAddressIsFull, kAllAreFull };
  HandshakePlace FindHandshakePlace(const std::string& address,
                                    Clock::time_point now);

  size_t count() const { return connections_.size(); }
  size_t CountOf(const std::string& address) const;
  // The most connections of one address.
  size_t address_max() const { return address_max_; }

 private:
  struct Connection {
    HeldSocket socket;
    int fd;
    std::string address;
    bool is_handshake;
    Clock::time_point handshake_end;
    uint64_t first_bytes;  // Received when gRPC got it.
  };

  const bool has_handshakes_;
  const size_t handshakes_max_;
  const size_t address_handshakes_max_;
  const size_t address_max_;
  std::vector<Connection> connections_;
};

}  // namespace msitd::server
