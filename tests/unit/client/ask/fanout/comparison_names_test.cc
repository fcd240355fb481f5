// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/comparison_names.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

TEST(ComparisonNamesTest, EqualNamesAreSaidOnce) {
  const std::vector<NodeComparison> all = {
      {"c-1", "a:1"}, {"c-1", "unix:/b"}, {"c-4", "c:1"}, {"c-1", "d:1"}};
  EXPECT_EQ(JoinNames(all), "c-1@a:1,unix:/b,c-4@c:1,c-1@d:1");
  EXPECT_EQ(*SplitNames(JoinNames(all)), all);
}

TEST(ComparisonNamesTest, RefusesOtherNames) {
  for (const char* text :
       {"", "c-1", "@a", "c-1@", "c-1@a,", ",c-1@a", "c-1@a,,b", "a,c-1@b"}) {
    EXPECT_FALSE(SplitNames(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::ask
