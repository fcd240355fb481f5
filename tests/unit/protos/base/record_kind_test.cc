// SPDX-License-Identifier: Apache-2.0
#include "protos/base/record_kind.h"

#include "gtest/gtest.h"

namespace msitd {
namespace {

TEST(RecordKindTest, NumbersAndNamesAreFrozen) {
  constexpr std::string_view kNames[] = {"tensor",   "number",    "text",
                                         "none",     "dtype",     "other",
                                         "document", "statistics"};
  ASSERT_EQ(std::size(kNames), static_cast<size_t>(kRecordKindCount));
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const auto kind = static_cast<RecordKind>(i);
    EXPECT_EQ(RecordKindName(kind), kNames[i]);
    EXPECT_EQ(ParseRecordKind(kNames[i]), kind);
    EXPECT_TRUE(IsValid(kind));
    EXPECT_EQ(IsValue(kind), i >= 1 && i <= 5) << i;
    EXPECT_EQ(HasValueText(kind), IsValue(kind) || i == 7) << i;
    EXPECT_EQ(IsTextOnly(kind), (i >= 2 && i <= 5) || i == 7) << i;
  }
}

TEST(RecordKindTest, EveryOtherNumberAndNameIsRefused) {
  EXPECT_FALSE(IsValid(static_cast<RecordKind>(8)));
  EXPECT_FALSE(IsValid(static_cast<RecordKind>(255)));
  EXPECT_EQ(RecordKindName(static_cast<RecordKind>(8)), "unknown");
  EXPECT_FALSE(ParseRecordKind("unknown").has_value());
  EXPECT_FALSE(ParseRecordKind("Tensor").has_value());
  EXPECT_FALSE(ParseRecordKind("value").has_value());
  EXPECT_FALSE(ParseRecordKind("").has_value());
}

}  // namespace
}  // namespace msitd
