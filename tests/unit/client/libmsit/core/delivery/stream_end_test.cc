// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/stream_end.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::libmsit {
namespace {

TEST(StreamEndTest, ReasonComesBackWhateverTheMessageSays) {
  for (const std::string message : {"", "m", "m [OTHER]", "[X", " ["}) {
    EXPECT_EQ(ReasonOfEnd(EndMessage(8, message, "DISK_FULL")), "DISK_FULL")
        << message;
  }
  EXPECT_EQ(ReasonOfEnd(EndMessage(8, "the disk is full", "")), "");
  EXPECT_EQ(ReasonOfEnd("the daemon is gone"), "");
  EXPECT_EQ(ReasonOfEnd(""), "");
}

}  // namespace
}  // namespace msitd::libmsit
