// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_stacks.h"

#include <gtest/gtest.h>

namespace msitd::trees {
namespace {

TEST(MsprobeStacksTest, GroupsShareTheirStack) {
  const formats::MemorySource file(R"json({
    "0": [["a.0.forward", "b.0.forward"],
          ["File /x/net.py, line 7, in forward, \n y = f(x)",
           "File run, of x.py, line 1, in <module>, \n net(x)"]],
    "1": [[], []]})json");
  MsprobeStacks stacks;
  ASSERT_TRUE(stacks.Read(file).ok());
  EXPECT_EQ(stacks.Find("a.0.forward"),
            "/x/net.py:7 forward\nrun, of x.py:1 <module>");
  EXPECT_EQ(stacks.Find("b.0.forward"), stacks.Find("a.0.forward"));
  EXPECT_EQ(stacks.Find("c.0.forward"), "");
}

TEST(MsprobeStacksTest, SeedHasAListForEachEntry) {
  const formats::MemorySource file(
      R"({"a.0.forward": ["File n.py, line 2, in g, \n z", "no\nframe"],
          "b.0.forward": []})");
  MsprobeStacks stacks;
  ASSERT_TRUE(stacks.Read(file).ok());
  EXPECT_EQ(stacks.Find("a.0.forward"), "n.py:2 g\nno frame");
  EXPECT_EQ(stacks.Find("b.0.forward"), "");
}

TEST(MsprobeStacksTest, WhatComesBeforeAnErrorIsTaken) {
  for (const char* rest : {R"("b": 3})", R"("b": [[["x"]], []]})", R"("b)"}) {
    const formats::MemorySource file(
        std::string(R"({"a": ["File n.py, line 2, in g, \n z"], )") + rest);
    MsprobeStacks stacks;
    EXPECT_FALSE(stacks.Read(file).ok()) << rest;
    EXPECT_EQ(stacks.Find("a"), "n.py:2 g");
  }
}

}  // namespace
}  // namespace msitd::trees
