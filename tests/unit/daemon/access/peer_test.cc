// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace msitd::access {
namespace {

TEST(PeerTest, KnowsTheProcessAtTheOtherEnd) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd near(fds[0]);
  const UniqueFd far(fds[1]);
  const auto peer = GetPeer(near.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(peer->gid, ::getegid());
}

TEST(PeerTest, NumbersThatStandForAnybodyIdentifyNobody) {
  Peer peer{.pid = 1, .uid = 65534, .gid = 65534, .groups = {7, 65534, 8}};
  Peer same = peer;
  same.RemoveUnknown({});
  EXPECT_TRUE(same.is_known_user);
  EXPECT_EQ(same.gid, 65534u);
  EXPECT_EQ(same.groups.size(), 3u);
  peer.RemoveUnknown({.user = 65534, .group = 65534});
  EXPECT_FALSE(peer.is_known_user);
  EXPECT_EQ(peer.gid, Peer::kNoGroup);
  EXPECT_EQ(peer.groups, (std::vector<gid_t>{7, 8}));
}

TEST(PeerTest, EndOfTheProcessIsSeen) {
  int wait[2];
  ASSERT_EQ(::pipe(wait), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char ignored;
    ::close(wait[1]);
    ::_exit(static_cast<int>(::read(wait[0], &ignored, 1)));
  }
  Peer peer;
  peer.pid = child;
  const UniqueFd process = WatchProcess(peer);
  ASSERT_TRUE(process.valid());
  pollfd event{process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  ::close(wait[1]);
  EXPECT_EQ(::poll(&event, 1, 60'000), 1);
  ::close(wait[0]);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(WatchProcess(Peer{}).valid());
}

}  // namespace
}  // namespace msitd::access
