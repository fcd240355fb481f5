// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/overflow_ids.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace msitd::access {
namespace {

using msitd::testing::TempDir;

class OverflowIdsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
  }
  OverflowIds Read() { return OverflowIds::Read(dir_.path(), dir_.path()); }

  TempDir dir_;
};

TEST_F(OverflowIdsTest, InTheInitialNamespaceEverybodyIsKnown) {
  Write("uid_map", "         0          0 4294967295\n");
  Write("gid_map", "         0          0 4294967295\n");
  Write("overflowuid", "65534\n");
  EXPECT_EQ(Read().user, std::nullopt);
  EXPECT_EQ(Read().group, std::nullopt);
}

TEST_F(OverflowIdsTest, ElsewhereTheNumbersOfTheKernelMeanNobody) {
  // The mapping that PrivateUsers=yes creates.
  Write("uid_map", "0 0 1\n977 977 1\n");
  Write("gid_map", "0 0 1\n977 977 1\n");
  Write("overflowuid", "60001\n");
  Write("overflowgid", "60002\n");
  EXPECT_EQ(Read().user, 60001u);
  EXPECT_EQ(Read().group, 60002u);
  // All numbers are mapped, with an offset.
  Write("uid_map", "0 100000 4294967295\n");
  EXPECT_EQ(Read().user, 60001u);
}

TEST_F(OverflowIdsTest, ANamespaceMayHaveAUserOfThatNumberToo) {
  Write("overflowuid", "65534\n");
  Write("uid_map", "0 1000 1\n1 100000 65533\n");
  EXPECT_FALSE(Read().user_is_mapped);
  Write("uid_map", "0 1000 1\n1 100000 65534\n");
  EXPECT_EQ(Read().user, 65534u);
  EXPECT_TRUE(Read().user_is_mapped);
}

TEST_F(OverflowIdsTest, FilesThatCannotBeReadCountAsANamespaceOfItsOwn) {
  EXPECT_EQ(Read().user, 65534u);
  EXPECT_EQ(Read().group, 65534u);
}

}  // namespace
}  // namespace msitd::access
