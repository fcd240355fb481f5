// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/token_pace.h"

#include <gtest/gtest.h>

namespace msitd::ingest {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TokenPace::Time kStart{seconds(1000)};

TEST(TokenPaceTest, KnowsNothingOfAProducerThatHasNotBegun) {
  TokenPace pace;
  EXPECT_EQ(pace.TokenAhead(kStart), 0);
  pace.Report(0, kStart);
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(9)), 0);
}

TEST(TokenPaceTest, IsOneTokenAheadOfAProducerOfUnknownSpeed) {
  TokenPace pace;
  pace.Report(1'000'000'000, kStart);
  EXPECT_EQ(pace.TokenAhead(kStart), 1'000'000'001);
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(9)), 1'000'000'001);
}

TEST(TokenPaceTest, IsWhereAFastProducerIsASecondLater) {
  TokenPace pace;
  for (int i = 0; i <= 3; ++i) pace.Report(100 + 150 * i, kStart + seconds(i));
  const TokenPace::Time told = kStart + seconds(3);
  EXPECT_EQ(pace.TokenAhead(told), 550 + 150 + 1);
  EXPECT_EQ(pace.TokenAhead(told + milliseconds(500)), 550 + 225 + 1);
  EXPECT_EQ(pace.TokenAhead(told + seconds(1)), 550 + 300 + 1);
}

TEST(TokenPaceTest, GoesNoFurtherForAProducerThatStandsStill) {
  TokenPace pace;
  pace.Report(100, kStart);
  pace.Report(250, kStart + seconds(1));
  EXPECT_EQ(pace.TokenAhead(kStart + std::chrono::hours(1)), 250 + 300 + 1);
}

TEST(TokenPaceTest, TakesASlowProducerSlowly) {
  TokenPace pace;
  pace.Report(7, kStart);
  pace.Report(8, kStart + seconds(20));
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(21)), 8 + 1 + 1);
}

TEST(TokenPaceTest, TakesAStepOfTheNumbersForNoSpeed) {
  TokenPace pace;
  pace.Report(1, kStart);
  pace.Report(3, kStart + seconds(1));
  pace.Report(1'000'003, kStart + seconds(2));
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(2)), 1'000'003 + 2 + 1);
  pace.Report(1'000'005, kStart + seconds(3));
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(3)), 1'000'005 + 2 + 1);
  // Lower tokens are from another thread, or from a new numbering.
  pace.Report(4, kStart + seconds(4));
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(3)), 1'000'005 + 2 + 1);
}

TEST(TokenPaceTest, IsBoundedAhead) {
  TokenPace pace;
  pace.Report(1, kStart);
  pace.Report(1'000'000'000, kStart + seconds(1));
  EXPECT_EQ(pace.TokenAhead(kStart + seconds(1)),
            1'000'000'000 + TokenPace::kAheadMax);
}

}  // namespace
}  // namespace msitd::ingest
