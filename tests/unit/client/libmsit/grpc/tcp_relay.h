// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <thread>
#include <utility>

#include "protos/os/unique_fd.h"

namespace msitd::libmsit {

// A network connection that can be interrupted: relays its own port to another
// port on loopback, and can stop forwarding. Thread-safe.
class TcpRelay {
 public:
  explicit TcpRelay(int to_port) : to_port_(to_port) {
    // A small buffer, so that few bytes are in transit.
    const int bytes = 4096;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_.get(), 8);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                  &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~TcpRelay() {
    stops_ = true;
    thread_.join();
  }
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  int port() const { return port_; }

  // Stops forwarding in both directions, without notifying either side.
  void Freeze() { is_frozen_ = true; }
  void Thaw() { is_frozen_ = false; }

  // Returns the number of connections ever made.
  int connection_count() const { return connection_count_; }

 private:
  static constexpr int kStepMs = 5;

  using Wire = std::pair<UniqueFd, UniqueFd>;

  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  static bool IsReadable(int fd, int timeout_ms) {
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, timeout_ms) == 1;
  }

  void Run() {
    while (!stops_) {
      if (IsReadable(listener_.get(), kStepMs) && !is_frozen_) Accept();
      if (is_frozen_) continue;
      wires_.remove_if([](Wire& wire) {
        return !Carry(wire.first.get(), wire.second.get()) ||
               !Carry(wire.second.get(), wire.first.get());
      });
    }
  }

  void Accept() {
    UniqueFd from(::accept(listener_.get(), nullptr, nullptr));
    UniqueFd to(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = Loopback(to_port_);
    if (!from.valid() || !to.valid() ||
        ::connect(to.get(), reinterpret_cast<const sockaddr*>(&address),
                  sizeof(address)) != 0) {
      return;
    }
    wires_.emplace_back(std::move(from), std::move(to));
    ++connection_count_;
  }

  // Returns false at the end of the connection.
  static bool Carry(int from, int to) {
    std::array<char, 65536> bytes;
    while (IsReadable(from, 0)) {
      const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
      if (count <= 0) return false;
      ssize_t sent = 0;
      while (sent < count) {
        const ssize_t more =
            ::send(to, bytes.data() + sent, static_cast<size_t>(count - sent),
                   MSG_NOSIGNAL);
        if (more <= 0) return false;
        sent += more;
      }
    }
    return true;
  }

  const int to_port_;
  const UniqueFd listener_{::socket(AF_INET, SOCK_STREAM, 0)};
  int port_ = 0;
  std::atomic<bool> is_frozen_{false};
  std::atomic<bool> stops_{false};
  std::atomic<int> connection_count_{0};
  std::list<Wire> wires_;  // Used only by the thread.
  std::thread thread_;
};

}  // namespace msitd::libmsit
