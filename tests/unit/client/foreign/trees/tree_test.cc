// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

TEST(TreeTest, KindsHaveNames) {
  for (const char* name :
       {"files", "ge", "fx", "mindie", "msit", "atb", "msprobe"}) {
    const auto kind = ParseTreeKind(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_EQ(TreeKindName(*kind), name);
  }
  EXPECT_EQ(ParseTreeKind("GE"), std::nullopt);
  EXPECT_EQ(ParseTreeKind(""), std::nullopt);
}

TEST(TreeTest, WhatIsNotThereIsNotFound) {
  const MadeTree made;
  const auto tree = OpenTree(made.path("none"), {});
  EXPECT_EQ(tree.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(tree.status())),
              ::testing::StartsWith("open tree " + made.path("none")));
}

}  // namespace
}  // namespace msitd::trees
