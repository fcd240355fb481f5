// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_windows.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::compare {
namespace {

TEST(GroupWindowsTest, EveryNameIsInOneWindowInTheOrderOfExecution) {
  GroupSplitter splitter;
  const size_t count = 3 * kWindowTensorsMax;
  // The names are executed in reverse order.
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(splitter.Add(std::to_string(i), count - i, false));
    ASSERT_TRUE(splitter.Add(std::to_string(i), i, true));
  }
  ASSERT_TRUE(splitter.Add("only in target", 0, true));
  const auto windows = splitter.Split();
  ASSERT_TRUE(windows.has_value());
  ASSERT_EQ(windows->count(), 4u);
  for (const size_t i : {size_t{0}, kWindowTensorsMax, count - 1}) {
    const std::string name = std::to_string(i);
    const size_t expected = (count - 1 - i) / kWindowTensorsMax;
    for (size_t window = 0; window < windows->count(); ++window) {
      EXPECT_EQ(windows->Has(window, name), window == expected)
          << name << " in " << window;
    }
  }
  EXPECT_TRUE(windows->Has(3, "only in target"));
  // This name was recorded later.
  EXPECT_TRUE(windows->Has(3, "new"));
  EXPECT_FALSE(windows->Has(0, "new"));
}

TEST(GroupWindowsTest, NameWithTooManyTensorsIsNotCutApart) {
  GroupSplitter splitter;
  for (size_t i = 0; i <= kWindowTensorsMax; ++i) {
    ASSERT_TRUE(splitter.Add("shard", i, true));
  }
  EXPECT_FALSE(splitter.Split().has_value());
}

TEST(GroupWindowsTest, NoNamesMakeNoWindows) {
  const auto windows = GroupSplitter().Split();
  ASSERT_TRUE(windows.has_value());
  EXPECT_EQ(windows->count(), 0u);
}

}  // namespace
}  // namespace msitd::compare
