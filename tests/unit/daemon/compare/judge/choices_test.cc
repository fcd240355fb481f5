// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace msitd::compare {
namespace {

constexpr ChoiceOutcome kOther{.is_of_other_scores = true};

ChoiceOutcome OutcomeOf(const std::vector<int64_t>& golden,
                        const std::vector<int64_t>& target,
                        const std::vector<double>& golden_scores,
                        const std::vector<double>& target_scores) {
  ChoiceJudge judge;
  judge.Add({golden, target, golden_scores, target_scores});
  return judge.Finish();
}

ChoiceOutcome Flipped(uint64_t count) { return {.flipped_count = count}; }
ChoiceOutcome Unexplained(uint64_t count) {
  return {.unexplained_count = count};
}

TEST(ChoicesTest, EachRunThatChoseByItsScoresExplainsTheOther) {
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 0.99, 0}, {0.98, 0.99, 0}), Flipped(1));
}

// One row of both of two scores is in descending or in ascending order.
TEST(ChoicesTest, ChoicesThatAreAlwaysInOrderShowNoScores) {
  EXPECT_EQ(OutcomeOf({1, 0}, {0, 1}, {1, 2}, {1, 2}), kOther);
  EXPECT_EQ(OutcomeOf({1, 0}, {0, 1}, {1, 2, 0}, {1, 2, 0}), Unexplained(2));
  ChoiceJudge judge;
  const std::vector<int64_t> golden = {1, 0};
  const std::vector<int64_t> target = {0, 1};
  const std::vector<double> scores = {1, 2};
  for (int row = 0; row < 2; ++row) {
    judge.Add({golden, target, scores, scores});
  }
  EXPECT_EQ(judge.Finish(), Unexplained(4));
}

TEST(ChoicesTest, NothingIsNearEnough) {
  EXPECT_EQ(OutcomeOf({0}, {2}, {1, 0.99, 0}, {0.98, 0.99, 0}), Unexplained(1));
  // The target's choice is the second best by its own scores, with a tiny gap.
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 0.99999999, 0}, {1.01, 1, 0}),
            Unexplained(1));
  EXPECT_EQ(OutcomeOf({0, 1}, {1, 0}, {1, 0.5, 0}, {1, 0.5, 0}),
            Unexplained(2));
}

TEST(ChoicesTest, FewEqualScoresMayBeToldApartEitherWay) {
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 1, 0, 0.5}, {1, 1, 0, 0.5}), Flipped(1));
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 1, 0, 0.5}, {1, 1.25, 0, 0.5}), Flipped(1));
  std::vector<double> many(9, 1.0);
  many.insert(many.end(), {0, 0.5});
  EXPECT_EQ(OutcomeOf({0}, {1}, many, many), Unexplained(1));
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 1, 0}, {1, 1, 0}), Unexplained(1))
      << "as in a mask";
}

TEST(ChoicesTest, ClosedScoresExplainNothing) {
  for (const double closed :
       {-std::numeric_limits<double>::infinity(), -1e4, -1e9, -65504.0,
        double{std::numeric_limits<float>::lowest()}}) {
    const std::vector<double> scores = {1, 2, 3, closed, closed};
    EXPECT_EQ(OutcomeOf({2, 1, 0, 3}, {2, 1, 0, 4}, scores, scores),
              Unexplained(1))
        << closed;
    const std::vector<double> mask = {closed, closed, closed, 0, 0};
    EXPECT_EQ(OutcomeOf({4}, {3}, mask, mask), kOther) << closed;
    EXPECT_EQ(OutcomeOf({4}, {3}, {closed, closed, closed, 1, 1},
                        {closed, closed, closed, 1, 0}),
              kOther)
        << closed;
  }
}

TEST(ChoicesTest, SeveralMayChangePlaces) {
  EXPECT_EQ(OutcomeOf({0, 1}, {1, 0}, {1, 0.999, 0}, {0.999, 1, 0}),
            Flipped(2));
  // The third place has changed, and the second one has not.
  EXPECT_EQ(OutcomeOf({2, 0}, {0, 1}, {2, 1, 3}, {2, 1, 0}), Flipped(2));
}

TEST(ChoicesTest, SortMayAscend) {
  EXPECT_EQ(OutcomeOf({0, 1, 2}, {1, 0, 2}, {1, 2, 3}, {2.5, 2, 3}),
            Flipped(2));
  EXPECT_EQ(OutcomeOf({0}, {1}, {1, 2, 3}, {2.5, 2, 3}), kOther);
}

TEST(ChoicesTest, AllRowsAreSortedInOneOrder) {
  ChoiceJudge judge;
  const std::vector<double> scores = {1, 2};
  const std::vector<int64_t> up = {0, 1};
  const std::vector<int64_t> down = {1, 0};
  judge.Add({up, up, scores, scores});
  judge.Add({down, down, scores, scores});
  EXPECT_EQ(judge.Finish(), kOther);
}

TEST(ChoicesTest, UnsortedChoicesExplainNothing) {
  EXPECT_EQ(OutcomeOf({1, 0}, {0, 1}, {1, 0.5, 0}, {1, 0.5, 0}), kOther);
  EXPECT_EQ(OutcomeOf({0, 1}, {1, 0}, {1, 0.5, 0}, {1.1, 0.5, 0}),
            Unexplained(2));
}

TEST(ChoicesTest, ScoresByWhichGoldenDidNotChooseSayNothing) {
  EXPECT_EQ(OutcomeOf({2}, {0}, {1, 0.5, 0}, {1, 0.5, 0}), kOther);
  EXPECT_EQ(OutcomeOf({3}, {0}, {1, 0.5, 0}, {1, 0.5, 0}), kOther);
  EXPECT_EQ(OutcomeOf({1}, {0}, {1, 1, 1}, {1.5, 1, 0}), kOther);
  EXPECT_EQ(OutcomeOf({0, 0}, {0, 1}, {1, 0.5, 0}, {1, 0.5, 0}), kOther);
  EXPECT_EQ(OutcomeOf({0}, {1}, {NAN, 0.5, 0}, {1, 0.5, 0}), kOther);
}

TEST(ChoicesTest, ChoiceThatIsNoneOfThemIsNotExplained) {
  EXPECT_EQ(OutcomeOf({0}, {3}, {1, 0.5, 0}, {1, 0.5, 0}), Unexplained(1));
  EXPECT_EQ(OutcomeOf({0}, {-1}, {1, 0.5, 0}, {1, 0.5, 0}), Unexplained(1));
}

}  // namespace
}  // namespace msitd::compare
