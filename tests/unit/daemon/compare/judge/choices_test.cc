// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace msitd::compare {
namespace {

constexpr double kRoundoff = 0x1p-24;

ChoiceOutcome OutcomeOf(const std::vector<int64_t>& golden,
                        const std::vector<int64_t>& target,
                        const std::vector<double>& golden_scores,
                        const std::vector<double>& target_scores) {
  ChoiceOutcome out;
  AddChoices({golden, target, golden_scores, target_scores}, kRoundoff, out);
  return out;
}

TEST(ChoicesTest, EachRunThatChoseByItsScoresExplainsTheOther) {
  const ChoiceOutcome out = OutcomeOf({0}, {1}, {1, 0.99, 0}, {0.98, 0.99, 0});
  EXPECT_FALSE(out.is_of_other_scores);
  EXPECT_EQ(out.flipped_count, 1);
  EXPECT_EQ(out.unexplained_count, 0);
  EXPECT_NEAR(out.gap, 0.01, 1e-12);
  EXPECT_NEAR(out.difference, 0.02, 1e-12);
}

TEST(ChoicesTest, GapThatTheScoresDoNotCloseIsNotExplained) {
  const ChoiceOutcome out = OutcomeOf({0}, {2}, {1, 0.99, 0}, {0.98, 0.99, 0});
  EXPECT_EQ(out.flipped_count, 0);
  EXPECT_EQ(out.unexplained_count, 1);
}

TEST(ChoicesTest, EqualScoresMayBeToldApartEitherWay) {
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 1, 0}, {1, 1, 0}).flipped_count, 1);
}

TEST(ChoicesTest, SeveralMayChangePlaces) {
  const ChoiceOutcome out =
      OutcomeOf({0, 1}, {1, 0}, {1, 0.999, 0}, {0.999, 1, 0});
  EXPECT_EQ(out.flipped_count, 2);
  EXPECT_EQ(out.unexplained_count, 0);
  EXPECT_EQ(
      OutcomeOf({0, 1}, {1, 0}, {1, 0.5, 0}, {1, 0.5, 0}).unexplained_count, 2);
}

TEST(ChoicesTest, UnsortedChoicesAreComparedInTheOrderOfTheirScores) {
  const ChoiceOutcome out = OutcomeOf({1, 0}, {0, 1}, {1, 0.5, 0}, {1, 0.5, 0});
  EXPECT_EQ(out.flipped_count + out.unexplained_count, 0);
}

TEST(ChoicesTest, ScoresByWhichGoldenDidNotChooseSayNothing) {
  EXPECT_TRUE(OutcomeOf({2}, {0}, {1, 0.5, 0}, {1, 0.5, 0}).is_of_other_scores);
  EXPECT_TRUE(OutcomeOf({3}, {0}, {1, 0.5, 0}, {1, 0.5, 0}).is_of_other_scores);
  EXPECT_TRUE(
      OutcomeOf({0, 0}, {0, 1}, {1, 0.5, 0}, {1, 0.5, 0}).is_of_other_scores);
  EXPECT_TRUE(
      OutcomeOf({0}, {1}, {NAN, 0.5, 0}, {1, 0.5, 0}).is_of_other_scores);
}

TEST(ChoicesTest, ChoiceThatIsNoneOfThemIsNotExplained) {
  EXPECT_EQ(OutcomeOf({0}, {3}, {1, 0.5, 0}, {1, 0.5, 0}).unexplained_count, 1);
  EXPECT_EQ(OutcomeOf({0}, {-1}, {1, 0.5, 0}, {1, 0.5, 0}).unexplained_count,
            1);
}

}  // namespace
}  // namespace msitd::compare
