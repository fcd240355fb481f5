// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_nesting.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace msitd {
namespace {

TEST(CallNestingTest, ACallBetweenInputsAndOutputsOfAnotherIsInsideIt) {
  CallNesting nesting;
  const int32_t outer = nesting.Add("model", 0, Io::kInput);
  const int32_t inner = nesting.Add("Torch.log", 0, Io::kInput);
  nesting.Add("Torch.log", 0, Io::kOutput);
  nesting.Add("model", 0, Io::kOutput);
  const int32_t later = nesting.Add("Torch.log", 1, Io::kInput);
  nesting.Add("Torch.log", 1, Io::kOutput);
  nesting.FindParents();
  EXPECT_EQ(nesting.calls()[inner].parent, outer);
  EXPECT_EQ(nesting.calls()[outer].parent, CallNesting::kNone);
  EXPECT_EQ(nesting.calls()[later].parent, CallNesting::kNone);
  EXPECT_TRUE(nesting.IsWithin(inner, outer));
  EXPECT_FALSE(nesting.IsWithin(later, outer));
  EXPECT_EQ(nesting.first_call(), outer);
}

TEST(CallNestingTest, NamesDecideIfInputsWereNotRecorded) {
  CallNesting nesting;
  const int32_t part = nesting.Add("model.fc", 0, Io::kOutput);
  const int32_t whole = nesting.Add("model", 0, Io::kOutput);
  nesting.FindParents();
  EXPECT_EQ(nesting.calls()[part].parent, whole);
  EXPECT_FALSE(nesting.has_inputs());
}

TEST(CallNestingTest, PassesOfAnOpAreDifferentCalls) {
  CallNesting nesting;
  const int32_t forward = nesting.Add("fc", 0, Io::kInput);
  EXPECT_EQ(nesting.Add("fc", 0, Io::kWeight), forward);
  EXPECT_EQ(nesting.Add("fc", 0, Io::kOutput), forward);
  const int32_t backward = nesting.Add("fc", 0, Io::kGradOutput);
  EXPECT_EQ(nesting.Add("fc", 0, Io::kGradInput), backward);
  EXPECT_NE(forward, backward);
  EXPECT_NE(nesting.Add("fc", 1, Io::kInput), forward);
  nesting.FindParents();
  EXPECT_TRUE(nesting.calls()[backward].is_backward);
  EXPECT_EQ(nesting.calls()[forward].first, 0);
  EXPECT_EQ(nesting.calls()[forward].last, 2);
}

TEST(CallNestingTest, WeightsDoNotExtendACall) {
  CallNesting nesting;
  const int32_t call = nesting.Add("fc", 0, Io::kWeight);
  nesting.FindParents();
  EXPECT_EQ(nesting.calls()[call].first, CallNesting::kNone);
  EXPECT_EQ(nesting.first_call(), CallNesting::kNone);
}

TEST(CallNestingTest, ManyLevelsOfANameAreNotLookedUp) {
  for (const int levels : {10, 1000}) {
    std::string inner = "a";
    for (int i = 0; i < levels; ++i) inner += ".";
    inner += "b";
    CallNesting nesting;
    const int32_t part = nesting.Add(inner, 0, Io::kOutput);
    const int32_t whole = nesting.Add("a", 0, Io::kOutput);
    nesting.FindParents();
    EXPECT_EQ(nesting.calls()[part].parent,
              levels == 10 ? whole : CallNesting::kNone);
  }
}

TEST(CallNestingTest, CanBeStopped) {
  std::vector<std::string> ops;
  for (int i = 0; i < 10'000; ++i) ops.push_back("op" + std::to_string(i));
  CallNesting nesting;
  nesting.Add("model", 0, Io::kInput);
  for (const std::string& op : ops) {
    nesting.Add(op, 0, Io::kInput);
    nesting.Add(op, 0, Io::kOutput);
  }
  nesting.Add("model", 0, Io::kOutput);
  int count = 0;
  nesting.FindParents([&count] { return ++count == 2; });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(nesting.calls()[1].parent, 0);
  EXPECT_EQ(nesting.calls().back().parent, CallNesting::kNone);
}

TEST(CallNestingTest, ContradictingNamesAndPositionsFormNoCycle) {
  // Seeded, so that a failure repeats.
  std::mt19937 random(7);
  const std::vector<std::string> ops = {"a", "a.b", "a.b.c", "b", "b.a"};
  const Io ios[] = {Io::kInput, Io::kOutput, Io::kWeight, Io::kGradOutput,
                    Io::kGradInput};
  for (int round = 0; round < 200; ++round) {
    CallNesting nesting;
    for (int i = 0; i < 40; ++i) {
      nesting.Add(ops[random() % ops.size()],
                  static_cast<int32_t>(random() % 3), ios[random() % 5]);
    }
    nesting.FindParents();
    const auto count = static_cast<int32_t>(nesting.calls().size());
    for (int32_t call = 0; call < count; ++call) {
      int32_t around = nesting.calls()[call].parent;
      for (int depth = 0; around != CallNesting::kNone; ++depth) {
        ASSERT_LT(depth, count) << round;
        around = nesting.calls()[around].parent;
      }
    }
  }
}

}  // namespace
}  // namespace msitd
