// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/tolerance_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace msitd::ask {
namespace {

v1::RequiredTolerance Needed(bool at_least, double bound, double required) {
  v1::RequiredTolerance out;
  out.set_metric(at_least ? "cosine" : "nl2");
  out.set_at_least(at_least);
  out.set_bound(bound);
  out.set_required(required);
  out.set_row(7);
  return out;
}

TEST(RequiredToleranceTextTest, RoundsSoThatTheBoundStillServes) {
  EXPECT_EQ(RequiredToleranceText(Needed(false, 0.005, 0.01266231)),
            "nl2 <= 0.0126624 (now 0.005); row 7");
  EXPECT_EQ(RequiredToleranceText(Needed(true, 0.9999, 0.99469386)),
            "cosine >= 0.994693 (now 0.9999); row 7");
  EXPECT_EQ(RequiredToleranceText(Needed(false, 0, 2)),
            "nl2 <= 2 (now 0); row 7");
  EXPECT_EQ(RequiredToleranceText(Needed(false, 0, 9.9999999)),
            "nl2 <= 10 (now 0); row 7");
}

TEST(RequiredToleranceTextTest, TheNumberThatIsReadServesWhateverItIs) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const bool at_least = random() % 2 == 0;
    const double sign = random() % 2 == 0 ? -1 : 1;
    const double value =
        sign * std::ldexp(static_cast<double>(random() >> 11),
                          static_cast<int>(random() % 1900) - 1000);
    const std::string text = RequiredToleranceText(Needed(at_least, 0, value));
    const double read = std::strtod(text.c_str() + text.find('=') + 1, nullptr);
    ASSERT_TRUE(at_least ? read <= value : read >= value) << text;
    ASSERT_NEAR(read / value, 1, 1.1e-5) << text;
  }
}

TEST(RequiredToleranceTextTest, HasTheOperatorThatTheUserWrote) {
  v1::RequiredTolerance needed = Needed(false, 0.1, 2);
  needed.set_strict(true);
  EXPECT_EQ(RequiredToleranceText(needed), "nl2 < 2 (now 0.1); row 7");
  needed.set_negated(true);
  EXPECT_EQ(RequiredToleranceText(needed), "not nl2 >= 2 (now 0.1); row 7");
  needed.set_strict(false);
  EXPECT_EQ(RequiredToleranceText(needed), "not nl2 > 2 (now 0.1); row 7");
  needed = Needed(true, 0.9, 0.5);
  needed.set_negated(true);
  EXPECT_EQ(RequiredToleranceText(needed), "not cosine < 0.5 (now 0.9); row 7");
}

TEST(RequiredToleranceTextTest, RtolAndAtolAreWrittenAsTheRuleTakesThem) {
  v1::RequiredTolerance needed = Needed(false, 1e-5, 0.25);
  needed.set_metric("atol_needed");
  needed.set_element_tolerance(true);
  EXPECT_EQ(RequiredToleranceText(needed), "atol=0.25 (now 1e-05); row 7");
  EXPECT_TRUE(IsViolated(needed));
  needed.set_required(HUGE_VAL);
  EXPECT_FALSE(IsViolated(needed));
}

TEST(RequiredToleranceTextTest, SaysSoWhereBoundsAloneDoNotDo) {
  v1::Comparison comparison;
  EXPECT_STREQ(RequiredToleranceLabel(comparison), "would pass with");
  EXPECT_EQ(HopelessText(comparison), "");
  comparison.set_hopeless_count(2);
  comparison.set_first_hopeless_row(4);
  EXPECT_STREQ(RequiredToleranceLabel(comparison), "needs at least");
  EXPECT_EQ(HopelessText(comparison),
            "2 rows fail with any bounds, the first is row 4");
  comparison.Clear();
  comparison.set_unmatched_count(1);
  EXPECT_STREQ(RequiredToleranceLabel(comparison), "needs at least");
}

TEST(RequiredToleranceTextsTest, BesideZerosThereIsAnAlternative) {
  v1::Comparison comparison;
  *comparison.add_required_tolerances() = Needed(false, 0.5, 0.5);
  v1::RequiredTolerance& instead = *comparison.add_required_tolerances();
  instead.set_metric("max_abs");
  instead.set_bound(std::numeric_limits<double>::quiet_NaN());
  instead.set_required(6.802991e-10);
  instead.set_row(9);
  *comparison.add_required_tolerances() = Needed(false, 0.005, 0.01266231);
  *comparison.add_required_tolerances() = Needed(false, 0.5, 0.25);
  EXPECT_THAT(RequiredToleranceTexts(comparison),
              ::testing::ElementsAre(
                  "(nl2 <= 0.5 or max_abs <= 6.803e-10) (now 0.5); row 9",
                  "nl2 <= 0.0126624 (now 0.005); row 7"));
}

TEST(RequiredToleranceTextsTest, BoundThatAnythingSatisfiesSaysSo) {
  v1::Comparison comparison;
  *comparison.add_required_tolerances() = Needed(false, 0.005, 1);
  *comparison.add_required_tolerances() = Needed(false, 0.005, 0.99);
  *comparison.add_required_tolerances() = Needed(true, 0.9, 0);
  v1::RequiredTolerance& other = *comparison.add_required_tolerances();
  other = Needed(false, 0.005, 3);
  other.set_metric("max_abs");
  EXPECT_THAT(
      RequiredToleranceTexts(comparison),
      ::testing::ElementsAre(
          "nl2 <= 1 (now 0.005); row 7; a target of zeros would also pass",
          "nl2 <= 0.99 (now 0.005); row 7", "cosine >= 0 (now 0.9); row 7",
          "max_abs <= 3 (now 0.005); row 7"));
}

}  // namespace
}  // namespace msitd::ask
