// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/listen_address.h"
#include "daemon/log/log.h"
#include "daemon/server/handover.h"
#include "daemon/server/open_connections.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Listens in the place of gRPC, whose own listener stops for good once no
// descriptor is left, and bounds the number of connections. gRPC gets a
// connection once it speaks. Until then it costs a descriptor alone, and makes
// way for the next one when there are too many.
//
// A connection that speaks waits here while there are too many TLS handshakes
// (see OpenConnections). The newest is next, because under a flood the others
// are most likely given up. So a client whose address has no other handshakes
// is let in at once, and one that shares its address with a flood once a place
// becomes free, kHandshakeTimeout later at the latest if no more come.
//
// Thread-compatible; serves on a thread of its own.
class ConnectionAcceptor {
 public:
  // How long a connection may be silent at first, or wait for its handshake.
  static constexpr std::chrono::seconds kGreetingTimeout{20};

  ConnectionAcceptor();
  // Stops if nobody has.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // How the connections of a group speak from their first byte on.
  enum class Protocol { kHttp2, kTls };

  // Adds a group of listeners that share `connections_max`; `handover` gets its
  // connections. Before Start().
  size_t AddGroup(std::unique_ptr<Handover> handover, Protocol protocol,
                  size_t connections_max);

  // Listens at `path`, where nothing is yet. Owner and group may connect.
  //
  // Errors: those of the socket.
  absl::Status ListenUnix(size_t group, const std::string& path);

  // Accepts from a Unix socket that listens already, and does not block.
  void Adopt(size_t group, UniqueFd listener);

  // Listens at all that `address` resolves to, and returns the port.
  //
  // Errors: UNAVAILABLE if it is taken or not of this machine.
  absl::StatusOr<uint16_t> ListenTcp(size_t group,
                                     const config::ListenAddress& address);

  // Accepts from here on; the server has started.
  void Start();

  // Closes the listeners. Connections that gRPC has stay.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  // A connection that gRPC does not have yet.
  struct Greeting {
    UniqueFd socket;
    int listener;
    Clock::time_point deadline;
    std::string address;      // See PeerAddress.
    bool has_spoken = false;  // Waits for its handshake.
  };
  struct Group {
    Group(std::unique_ptr<Handover> handover, Protocol protocol,
          size_t connections_max)
        : handover(std::move(handover)),
          protocol(protocol),
          connections_max(connections_max),
          open(connections_max, protocol == Protocol::kTls) {}

    std::unique_ptr<Handover> handover;
    Protocol protocol;
    size_t connections_max;
    OpenConnections open;
    std::list<Greeting> greetings;  // The oldest first.
    size_t waiting_count = 0;       // Of them, those that have spoken.
    log::Limiter log_limiter;
  };
  struct Listener {
    UniqueFd socket;
    size_t group;
    bool is_tcp;
    bool is_watched = false;
  };

  void Serve();
  int TimeoutMs() const;
  void WatchListeners();
  void Accept(Listener& listener);
  // For want of a descriptor, takes that of `spare_` to accept one connection
  // and close it. False if the spare cannot be had back: the listener rests.
  bool TurnAway(Listener& listener);
  void Admit(Listener& listener, UniqueFd socket);
  // Makes room for one more connection with the address, by dropping one that
  // has not spoken, or else one that waits. False if all others are open.
  bool MakeRoom(Group& group, const std::string& address);
  void Drop(Group& group, std::list<Greeting>::iterator greeting);
  void HandleGreeting(int fd);
  void HandOver(Group& group, std::list<Greeting>::iterator greeting);
  // Hands over those that wait, as far as there are places.
  void HandOverWaiting();
  // False if the peer is gone or speaks another protocol, which is logged here
  // because gRPC would not say who it is.
  bool SpeaksTo(Group& group, int fd);
  void DropSilent();
  bool Watch(int fd, uint32_t events);

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Listener> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;   // An eventfd.
  UniqueFd spare_;  // Given up to turn somebody away.
  Clock::time_point accept_time_;
  std::thread thread_;
};

}  // namespace msitd::server
