// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/session_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "protos/shm/sealed_memory.h"

namespace msitd::shm {
namespace {

class SessionSocketTest : public testing::Test {
 protected:
  SessionSocketTest() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    near_ = UniqueFd(fds[0]);
    far_ = UniqueFd(fds[1]);
  }

  UniqueFd near_;
  UniqueFd far_;
  Packet packet_;
};

TEST_F(SessionSocketTest, MessageArrivesWithItsDescriptors) {
  UniqueFd memory = MakeSealedMemory("test", 8192);
  SessionWelcome welcome;
  welcome.committed_count = 12;
  const int fds[] = {memory.get(), near_.get()};
  ASSERT_TRUE(SendMessage(near_.get(), welcome, fds));
  ASSERT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kPacket);
  SessionWelcome got;
  ASSERT_TRUE(packet_.As(got));
  EXPECT_EQ(got.committed_count, 12u);
  ASSERT_EQ(packet_.fd_count, 2u);
  EXPECT_EQ(SealedMemorySize(packet_.fds[0].get()), 8192u);
  EXPECT_NE(::fcntl(packet_.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(SessionSocketTest, MessageOfAnotherTypeVersionOrSizeIsNone) {
  SessionFinish finish;
  finish.header.version = 9;
  ASSERT_TRUE(SendMessage(near_.get(), finish));
  ASSERT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kPacket);
  EXPECT_FALSE(packet_.As(finish));

  ASSERT_TRUE(SendMessage(near_.get(), SessionCoverage{}));
  ASSERT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kPacket);
  SessionCoverage report;
  SessionHello hello;
  EXPECT_FALSE(packet_.As(finish));
  EXPECT_FALSE(packet_.As(hello));
  EXPECT_TRUE(packet_.As(report));
}

TEST_F(SessionSocketTest, PacketOverTheLimitCountsAsBroken) {
  const std::vector<std::byte> large(kSessionMessageBytesMax + 1);
  ASSERT_TRUE(SendPacket(near_.get(), large));
  EXPECT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kClosed);
}

size_t OpenDescriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(SessionSocketTest, DescriptorsThatNobodyAskedForAreClosed) {
  const size_t before = OpenDescriptors();
  std::vector<int> fds(20, near_.get());
  char byte = 0;
  iovec piece{&byte, 1};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  ASSERT_EQ(::sendmsg(near_.get(), &header, 0), 1);
  EXPECT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kClosed);
  ASSERT_TRUE(SendMessage(near_.get(), SessionFinish{}));
  ASSERT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kPacket);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(SessionSocketTest, WhatWasNotReadIsDiscardedAndNoMoreComes) {
  const size_t before = OpenDescriptors();
  const int fds[] = {near_.get(), near_.get()};
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(SendMessage(near_.get(), SessionFinish{}, fds));
    ASSERT_TRUE(SendPacket(
        near_.get(), std::vector<std::byte>(kSessionMessageBytesMax + 1)));
  }
  DiscardPackets(far_.get());
  EXPECT_FALSE(SendMessage(near_.get(), SessionFinish{}));
  EXPECT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kClosed);
  EXPECT_EQ(OpenDescriptors(), before);
  // The other direction stays open.
  EXPECT_TRUE(SendMessage(far_.get(), SessionEnd{}));
}

TEST_F(SessionSocketTest, NeitherReceivingNorSendingBlocks) {
  EXPECT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kNothing);
  int sent = 0;
  while (sent < 1'000'000 && SendMessage(near_.get(), SessionEnd{})) ++sent;
  EXPECT_LT(sent, 1'000'000);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(SessionSocketTest, ClosedSocketIsSeenOnBothWays) {
  near_.reset();
  EXPECT_EQ(ReceivePacket(far_.get(), packet_), ReceiveResult::kClosed);
  EXPECT_FALSE(SendMessage(far_.get(), SessionFinish{}));
}

TEST_F(SessionSocketTest, NobodyToConnectToGivesAReason) {
  EXPECT_FALSE(ConnectSession("/nonexistent/ingest.sock").valid());
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(ConnectSession(std::string(200, 'x')).valid());
  EXPECT_EQ(errno, ENAMETOOLONG);
}

}  // namespace
}  // namespace msitd::shm
