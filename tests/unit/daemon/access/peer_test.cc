// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "tests/support/temp_dir.h"

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

constexpr uid_t kOverflowId = 65534;

// Runs `check` in a child process and returns its exit status.
int StatusOf(const std::function<int()>& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Enters a user namespace that maps the numbers 0 to 65535 to themselves. A
// child writes the map, because only a process outside the namespace may map
// more than one number.
bool EnterContainer() {
  int wait[2];
  if (::pipe(wait) != 0) return false;
  const std::string process = "/proc/" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    char ignored;
    ::close(wait[1]);
    (void)!::read(wait[0], &ignored, 1);
    for (const char* map : {"/uid_map", "/gid_map"}) {
      std::ofstream file(process + map);
      file << "0 0 65536\n";
      file.close();
      if (!file) ::_exit(1);
    }
    ::_exit(0);
  }
  const bool is_in = ::unshare(CLONE_NEWUSER) == 0;
  ::close(wait[0]);
  ::close(wait[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return is_in && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Connects as `uid`, from inside or outside the container, to a daemon that
// runs in a container as `daemon`. Returns 1 if the daemon identifies the user,
// 0 if not.
int Connects(uid_t uid, bool is_outside, uid_t daemon) {
  const msitd::testing::TempDir directory;
  const std::string name = directory / "socket";
  return StatusOf([&]() -> int {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
    int lifeline[2];
    if (::bind(listener, where, sizeof(address)) != 0 ||
        ::chmod(name.c_str(), 0777) != 0 ||
        ::chmod(directory.path().c_str(), 0711) != 0 ||
        ::listen(listener, 1) != 0 || ::pipe(lifeline) != 0) {
      return 2;
    }
    // The client connects, and waits until the daemon has exited.
    const auto start_client = [&] {
      if (::fork() != 0) return;
      ::close(lifeline[1]);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      char ignored;
      if (::setresuid(uid, uid, uid) == 0 &&
          ::connect(fd, where, sizeof(address)) == 0) {
        (void)!::read(lifeline[0], &ignored, 1);
      }
      ::_exit(0);
    };
    if (is_outside) start_client();
    if (!EnterContainer()) return 3;
    if (!is_outside) start_client();
    if (::setresuid(daemon, daemon, daemon) != 0) return 4;
    pollfd event{listener, POLLIN, 0};
    if (::poll(&event, 1, 60'000) != 1) return 5;
    const int socket = ::accept(listener, nullptr, nullptr);
    const auto peer = GetPeer(socket, OverflowIds::Read());
    if (!peer.ok() || peer->uid != kOverflowId) return 6;
    return peer->is_known_user ? 1 : 0;
  });
}

TEST(PeerTest, UsersOfAContainerAreToldFromThoseOutside) {
  const bool is_possible =
      ::geteuid() == 0 &&
      StatusOf([] { return EnterContainer() ? 0 : 1; }) == 0;
  if (!is_possible) GTEST_SKIP() << "no user namespace can be made here";
  constexpr uid_t kOutside = 70000;
  // One daemon runs as that user, and the other one as root of the container.
  EXPECT_EQ(Connects(kOverflowId, false, kOverflowId), 1);
  EXPECT_EQ(Connects(kOverflowId, false, 0), 1);
  // Neither daemon identifies a user outside, and a daemon of another user
  // identifies no user with this number.
  EXPECT_EQ(Connects(kOutside, true, kOverflowId), 0);
  EXPECT_EQ(Connects(kOutside, true, 0), 0);
  EXPECT_EQ(Connects(kOverflowId, false, 1000), 0);
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
