// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/open_connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <list>
#include <string>

#include "protos/os/unique_fd.h"

namespace msitd::server {
namespace {

using Clock = OpenConnections::Clock;
using HandshakePlace = OpenConnections::HandshakePlace;

// Connections over the loopback interface. All of its addresses belong to this
// machine.
class OpenConnectionsTest : public ::testing::Test {
 protected:
  struct Pair {
    UniqueFd client;
    UniqueFd server;
  };

  OpenConnectionsTest() {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = At("127.0.0.1");
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), generic, sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.get(), 64), 0);
    socklen_t length = sizeof(address);
    ::getsockname(listener_.get(), generic, &length);
    port_ = address.sin_port;
  }

  static sockaddr_in At(const char* host, in_port_t port = 0) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = port;
    EXPECT_EQ(::inet_pton(AF_INET, host, &out.sin_addr), 1);
    return out;
  }

  // Connects a client at `host`, which sends its first bytes.
  Pair& Connect(const char* host) {
    Pair pair;
    pair.client = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in from = At(host);
    const sockaddr_in to = At("127.0.0.1", port_);
    EXPECT_EQ(::bind(pair.client.get(),
                     reinterpret_cast<const sockaddr*>(&from), sizeof(from)),
              0);
    EXPECT_EQ(::connect(pair.client.get(),
                        reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              0);
    pair.server = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
    Say(pair);
    return pairs_.emplace_back(std::move(pair));
  }

  static void Say(Pair& pair) {
    EXPECT_EQ(::send(pair.client.get(), "x", 1, 0), 1);
    pollfd wanted{pair.server.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&wanted, 1, 10'000), 1);
  }

  Pair& Add(const char* host) {
    Pair& pair = Connect(host);
    const int fd = pair.server.get();
    open_.Add(fd, PeerAddress(fd), now_);
    return pair;
  }

  HandshakePlace Find(const char* host) {
    return open_.FindHandshakePlace(PeerAddress(Connect(host).server.get()),
                                    now_);
  }

  UniqueFd listener_;
  in_port_t port_ = 0;
  std::list<Pair> pairs_;
  // 16 handshakes, 4 per address, and 16 connections per address.
  OpenConnections open_{64, /*has_handshakes=*/true};
  Clock::time_point now_ = Clock::now();
};

TEST_F(OpenConnectionsTest, AnAddressHasAShareOfTheHandshakes) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Find("127.0.0.2"), HandshakePlace::kFree);
    Add("127.0.0.2");
  }
  EXPECT_EQ(Find("127.0.0.2"), HandshakePlace::kAddressIsFull);
  EXPECT_EQ(Find("127.0.0.3"), HandshakePlace::kFree);
  for (const char* host : {"127.0.0.3", "127.0.0.4", "127.0.0.5"}) {
    for (int i = 0; i < 4; ++i) Add(host);
  }
  EXPECT_EQ(Find("127.0.0.6"), HandshakePlace::kAllAreFull);
  now_ += OpenConnections::kHandshakeTimeout;
  EXPECT_EQ(Find("127.0.0.2"), HandshakePlace::kFree);
  EXPECT_EQ(open_.count(), 16u);
  EXPECT_EQ(open_.address_max(), 16u);
}

TEST_F(OpenConnectionsTest, AHandshakeThatGetsOnMakesRoomForTheNext) {
  for (int i = 0; i < 3; ++i) Add("127.0.0.2");
  Pair& last = Add("127.0.0.2");
  EXPECT_EQ(Find("127.0.0.2"), HandshakePlace::kAddressIsFull);
  EXPECT_EQ(::send(last.client.get(), "more", 4, 0), 4);
  while (Find("127.0.0.2") != HandshakePlace::kFree && !HasFailure()) {
  }
  Add("127.0.0.2");
  EXPECT_EQ(Find("127.0.0.2"), HandshakePlace::kAddressIsFull);
}

TEST_F(OpenConnectionsTest, ClosedOnesAreForgotten) {
  for (int i = 0; i < 4; ++i) Add("127.0.0.2");
  const std::string address = PeerAddress(pairs_.front().server.get());
  EXPECT_EQ(open_.CountOf(address), 4u);
  pairs_.front().server.reset();
  EXPECT_EQ(open_.FindHandshakePlace(address, now_), HandshakePlace::kFree);
  open_.ForgetClosed();
  EXPECT_EQ(open_.CountOf(address), 3u);
  EXPECT_EQ(open_.count(), 3u);
}

TEST_F(OpenConnectionsTest, WithoutHandshakesAddressesDoNotCount) {
  OpenConnections open(64, /*has_handshakes=*/false);
  EXPECT_EQ(open.address_max(), 64u);
  for (int i = 0; i < 20; ++i) {
    open.Add(Connect("127.0.0.2").server.get(), "", now_);
  }
  EXPECT_EQ(open.FindHandshakePlace("", now_), HandshakePlace::kFree);
}

}  // namespace
}  // namespace msitd::server
