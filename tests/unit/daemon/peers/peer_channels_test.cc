// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/peer_channels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::peers {
namespace {

constexpr char kEndpoint[] = "unix:/nobody/listens";
constexpr char kOther[] = "127.0.0.1:9";

TEST(PeerChannelsTest, OneIsLentToOneAtATime) {
  PeerChannels channels((PeerOptions()));
  auto first = *channels.Lend(kEndpoint);
  EXPECT_TRUE(first.is_new);
  const auto second = *channels.Lend(kEndpoint);
  EXPECT_TRUE(second.is_new);
  EXPECT_NE(second.channel, first.channel);
  const PeerChannel* const was = first.channel.get();
  first.channel.reset();
  const auto third = *channels.Lend(kEndpoint);
  EXPECT_FALSE(third.is_new);
  EXPECT_EQ(third.channel.get(), was);
  EXPECT_TRUE(channels.Lend(kOther)->is_new);
}

TEST(PeerChannelsTest, OneThatHasFailedIsNotLentAgain) {
  PeerChannels channels((PeerOptions()));
  channels.Lend(kEndpoint)->channel->NoteFailure();
  EXPECT_TRUE(channels.Lend(kEndpoint)->is_new);
  EXPECT_FALSE(channels.Lend(kEndpoint)->is_new);
}

TEST(PeerChannelsTest, FewAreKept) {
  PeerChannels channels((PeerOptions()));
  std::vector<PeerChannels::Lent> lent;
  for (size_t i = 0; i < PeerChannels::kOfEndpointMax + 3; ++i) {
    lent.push_back(*channels.Lend(kEndpoint));
  }
  lent.clear();
  for (size_t i = 0; i < PeerChannels::kOfEndpointMax + 3; ++i) {
    lent.push_back(*channels.Lend(kEndpoint));
    EXPECT_EQ(lent.back().is_new, i >= PeerChannels::kOfEndpointMax);
  }
}

TEST(PeerChannelsTest, ANewOneHasTheFilesAsTheyAre) {
  const testing::TempDir directory;
  PeerOptions options;
  options.ca_file = directory / "ca.pem";
  const auto write = [&](const std::string& text) {
    std::ofstream(options.ca_file) << text;
  };
  write("one");
  PeerChannels channels(options);
  EXPECT_TRUE(channels.Lend(kOther)->is_new);
  EXPECT_TRUE(channels.Lend(kEndpoint)->is_new);
  EXPECT_FALSE(channels.Lend(kOther)->is_new);
  write("two");
  EXPECT_TRUE(channels.Lend(kOther)->is_new);
  // For this endpoint, files have no effect.
  EXPECT_FALSE(channels.Lend(kEndpoint)->is_new);
  write("");
  EXPECT_TRUE(absl::IsFailedPrecondition(channels.Lend(kOther).status()));
  EXPECT_FALSE(channels.Lend(kEndpoint)->is_new);
}

}  // namespace
}  // namespace msitd::peers
