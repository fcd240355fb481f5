// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/stream_tokens.h"

#include <gtest/gtest.h>

#include "client/libmsit/core/token_reference.h"
#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

TEST(StreamTokensTest, ReferencesStayValidWhenTheBaseArrives) {
  StreamTokens tokens(/*appends=*/true, /*has_late_base=*/true);
  EXPECT_EQ(tokens.Next(), 1);
  const int64_t reference = tokens.Reference();
  EXPECT_EQ(tokens.NumberOf(reference), 1);
  EXPECT_TRUE(tokens.SetBase(10));
  EXPECT_EQ(tokens.NumberOf(reference), 11);
  EXPECT_EQ(tokens.current(), 11);
  EXPECT_EQ(tokens.Counted(reference), 1);
  EXPECT_EQ(tokens.Counted(12), 2);
}

TEST(StreamTokensTest, TheFirstNumberFixesTheBase) {
  StreamTokens tokens(/*appends=*/true, /*has_late_base=*/true);
  EXPECT_EQ(tokens.CountedIfKnown(3), std::nullopt);
  EXPECT_EQ(tokens.Counted(3), 3);
  EXPECT_FALSE(tokens.SetBase(10));
  EXPECT_EQ(tokens.CountedIfKnown(3), 3);
  EXPECT_EQ(tokens.base(), 0);
}

TEST(StreamTokensTest, RefusesTokensOutOfRange) {
  StreamTokens tokens(/*appends=*/false, /*has_late_base=*/false);
  EXPECT_TRUE(tokens.Set(kTokenMax).ok());
  EXPECT_FALSE(tokens.Set(kTokenMax + 1).ok());
  EXPECT_FALSE(tokens.Set(-1).ok());
  EXPECT_EQ(tokens.current(), kTokenMax);
  EXPECT_FALSE(IsTokenReference(tokens.Reference()));
}

TEST(StreamTokensTest, ReportsOnlyTheTokenThatIsAwaited) {
  StreamTokens tokens(/*appends=*/false, /*has_late_base=*/false);
  EXPECT_TRUE(tokens.Await(tokens.end()));
  const auto first = tokens.Begin(0);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->is_first);
  EXPECT_FALSE(tokens.Begin(1).has_value()) << "not awaited";
  EXPECT_FALSE(tokens.Await(1)) << "token 1 has begun already";
  EXPECT_FALSE(tokens.Begin(2).has_value()) << "not awaited";
  EXPECT_TRUE(tokens.Await(tokens.end()));
  EXPECT_FALSE(tokens.Begin(2).has_value()) << "not above the end";
  const auto next = tokens.Begin(3);
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(next->is_first);
  EXPECT_EQ(tokens.end(), 4);
}

}  // namespace
}  // namespace msitd::libmsit
