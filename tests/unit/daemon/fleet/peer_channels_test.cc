// SPDX-License-Identifier: Apache-2.0
#include "daemon/fleet/peer_channels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::fleet {
namespace {

constexpr char kEndpoint[] = "unix:/nobody/listens";
constexpr char kOther[] = "127.0.0.1:9";

TEST(PeerChannelsTest, OneIsKeptUntilItFails) {
  PeerChannels channels((PeerOptions()));
  const auto first = *channels.Get(kEndpoint);
  EXPECT_EQ(*channels.Get(kEndpoint), first);
  EXPECT_NE(*channels.Get(kOther), first);
  first->NoteFailure();
  const auto second = *channels.Get(kEndpoint);
  EXPECT_NE(second, first);
  EXPECT_EQ(*channels.Get(kEndpoint), second);
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
  const auto first = *channels.Get(kOther);
  const auto local = *channels.Get(kEndpoint);
  EXPECT_EQ(*channels.Get(kOther), first);
  write("two");
  EXPECT_NE(*channels.Get(kOther), first);
  // No file matters for it.
  EXPECT_EQ(*channels.Get(kEndpoint), local);
  write("");
  EXPECT_TRUE(absl::IsFailedPrecondition(channels.Get(kOther).status()));
  EXPECT_EQ(*channels.Get(kEndpoint), local);
}

}  // namespace
}  // namespace msitd::fleet
