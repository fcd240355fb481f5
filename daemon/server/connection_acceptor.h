// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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

// Listens on behalf of gRPC, and bounds the number of connections. gRPC's own
// listener stops permanently when no descriptor is left. A connection is passed
// to gRPC when the client has sent data. Until then it needs only a descriptor,
// and it is dropped in favor of newer connections when there are too many.
//
// Connections that have sent data wait here while there are too many TLS
// handshakes (see OpenConnections). The newest one is served first, because
// during a flood the older ones have most likely been abandoned. A client whose
// address has no other handshakes is therefore admitted immediately. A client
// that shares its address with a flood is admitted as soon as a handshake ends,
// which is at most kHandshakeTimeout later if no more connections arrive.
//
// Thread-compatible; serves on a thread of its own.
class ConnectionAcceptor {
 public:
  // How long a new connection may be silent or wait for its handshake.
  static constexpr std::chrono::seconds kGreetingTimeout{20};

  ConnectionAcceptor();
  // Calls Stop if it was not called.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  // The protocol that clients of a group speak from the first byte.
  enum class Protocol { kHttp2, kTls };

  // Adds a group of listeners that share `connections_max`. Their connections
  // are passed to `handover`. Must be called before Start().
  size_t AddGroup(std::unique_ptr<Handover> handover, Protocol protocol,
                  size_t connections_max);

  // Listens at `path`, where no file may exist. The owner and the group may
  // connect.
  //
  // Errors: those of the socket.
  absl::Status ListenUnix(size_t group, const std::string& path);

  // Accepts connections from a Unix socket that is already listening and is
  // non-blocking.
  void Adopt(size_t group, UniqueFd listener);

  // Listens at all addresses that `address` resolves to. Returns the port.
  //
  // Errors: UNAVAILABLE if the address is in use or does not belong to this
  // machine.
  absl::StatusOr<uint16_t> ListenTcp(size_t group,
                                     const config::ListenAddress& address);

  // Makes connection_count() follow the connections that end, for which the
  // thread wakes up regularly. Must be called before Start().
  void CountConnections() { counts_ = true; }
  // The connections that are open, at most kCountInterval ago. Thread-safe.
  static constexpr std::chrono::milliseconds kCountInterval{500};
  size_t connection_count() const { return connection_count_; }
  // The connections that were accepted so far. Thread-safe.
  uint64_t accepted_count() const { return accepted_count_; }

  // Starts to accept connections. The server must have been started.
  void Start();

  // Closes the listeners. Connections that gRPC owns stay open.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  // A connection that has not been passed to gRPC yet.
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
    std::list<Greeting> greetings;  // Oldest first.
    size_t waiting_count = 0;       // Greetings that have spoken.
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
  // If no descriptor is left, uses that of `spare_` to accept one connection
  // and close it. Returns false if the spare descriptor cannot be reopened; the
  // listener then pauses.
  bool TurnAway(Listener& listener);
  void Admit(Listener& listener, UniqueFd socket);
  // Makes room for another connection from the address by dropping a silent
  // connection or, if there is none, a waiting one. Returns false if all other
  // connections are open in gRPC.
  bool MakeRoom(Group& group, const std::string& address);
  void Drop(Group& group, std::list<Greeting>::iterator greeting);
  void HandleGreeting(int fd);
  void HandOver(Group& group, std::list<Greeting>::iterator greeting);
  // Passes waiting connections to gRPC while handshakes are free.
  void HandOverWaiting();
  // Returns false if the peer is gone or uses another protocol. Logs the
  // latter, because gRPC would not identify the peer.
  bool SpeaksTo(Group& group, int fd);
  void DropSilent();
  void UpdateCount();
  bool Watch(int fd, uint32_t events);

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Listener> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;   // An eventfd.
  UniqueFd spare_;  // Used to refuse connections.
  Clock::time_point accept_time_;
  bool counts_ = false;
  std::atomic<size_t> connection_count_ = 0;
  std::atomic<uint64_t> accepted_count_ = 0;
  std::thread thread_;
};

}  // namespace msitd::server
