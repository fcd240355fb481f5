// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/wrap.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

TEST(WrapTest, BreaksBetweenWords) {
  EXPECT_EQ(Wrap("aa bb cc dd", 0, 2, 5), "aa bb\n  cc\n  dd");
  EXPECT_EQ(Wrap("aa bb", 4, 4, 7), "aa\n    bb");
}

TEST(WrapTest, LeavesALongWordWhole) {
  EXPECT_EQ(Wrap("a root.encoder.layer b", 0, 0, 4),
            "a\nroot.encoder.layer\nb");
}

TEST(WrapTest, WithoutAWidthNothingIsBroken) {
  EXPECT_EQ(Wrap("aa  bb cc", 70, 70, 0), "aa  bb cc");
}

TEST(WrapTest, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(Wrap("模型 a", 0, 0, 5), "模型\na");
  EXPECT_EQ(Wrap("模型 a", 0, 0, 6), "模型 a");
}

}  // namespace
}  // namespace msitd::ask
