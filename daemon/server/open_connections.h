// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/server/held_socket.h"

namespace msitd::server {

// Returns the network address of the peer of a socket that limits are counted
// by: an IPv4 address, or the first 64 bits of an IPv6 address, because a host
// may have all addresses that share them. Empty for a Unix socket.
std::string PeerAddress(int fd);

// The connections of one group of listeners that gRPC owns.
//
// Any client that reaches a TLS port can start a handshake and then be silent.
// gRPC ends such a connection only after kHandshakeTimeout, and does not report
// when a handshake is finished. A connection therefore counts as a handshake
// until that time has passed, or until the peer has sent more data after its
// first message, as a client does to finish its handshake. Handshakes have a
// limit of their own, so that they cannot use up the connections, and each
// address may have only a part of both. A peer that fakes progress is still
// limited to its part of the connections.
//
// Thread-compatible.
class OpenConnections {
 public:
  using Clock = std::chrono::steady_clock;

  // gRPC closes a connection whose handshake is not finished after this time.
  static constexpr std::chrono::milliseconds kHandshakeTimeout{5000};
  // At most one in this many connections may be a handshake.
  static constexpr size_t kHandshakeShare = 4;
  // One address may have at most one in this many handshakes and connections.
  static constexpr size_t kAddressShare = 4;
  // Lower bound for all limits, however few descriptors there are.
  static constexpr size_t kBoundMin = 4;

  // Without `has_handshakes`, connections are not counted by address.
  OpenConnections(size_t connections_max, bool has_handshakes);

  // Adds a socket that is passed to gRPC. It must be open and have received its
  // first bytes.
  void Add(int fd, const std::string& address, Clock::time_point now);
  void ForgetClosed();

  // Returns whether another handshake from the address may start, or why not.
  enum class HandshakePlace { kFree, kAddressIsFull, kAllAreFull };
  HandshakePlace FindHandshakePlace(const std::string& address,
                                    Clock::time_point now);

  size_t count() const { return connections_.size(); }
  size_t CountOf(const std::string& address) const;
  // Maximum number of connections from one address.
  size_t address_max() const { return address_max_; }

 private:
  struct Connection {
    HeldSocket socket;
    int fd;
    std::string address;
    bool is_handshake;
    Clock::time_point handshake_end;
    uint64_t first_bytes;  // Bytes received when passed to gRPC.
  };

  const bool has_handshakes_;
  const size_t handshakes_max_;
  const size_t address_handshakes_max_;
  const size_t address_max_;
  std::vector<Connection> connections_;
};

}  // namespace msitd::server
