// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stated_tolerance.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "daemon/compare/judge/row_metrics.h"

namespace msitd::compare {
namespace {

std::shared_ptr<const StatedTolerance> Stated(std::string_view text) {
  return std::make_shared<const StatedTolerance>(ParseStatedTolerance(text));
}

TEST(StatedToleranceTest, APredicateIsTheCondition) {
  const StatedTolerance stated =
      ParseStatedTolerance("pass if nl2 < 1e-7 and max_abs < 3");
  ASSERT_TRUE(stated.predicate.has_value());
  EXPECT_EQ(stated.predicate->text(), "nl2 < 1e-7 and max_abs < 3");
}

TEST(StatedToleranceTest, ReasonsSayWhetherTheComparisonIsComplete) {
  const StatedTolerance open = ParseStatedTolerance("not checked: random");
  EXPECT_FALSE(open.predicate.has_value());
  EXPECT_FALSE(open.is_covered);
  EXPECT_EQ(open.reason, "not checked: random");
  const StatedTolerance covered = ParseStatedTolerance("covered: by functions");
  EXPECT_TRUE(covered.is_covered);
  EXPECT_EQ(covered.reason, "by functions");
}

TEST(StatedToleranceTest, OtherTextsStateThatNothingIsKnown) {
  for (const char* const text :
       {"", "pass if ", "pass if nonsense <", "pass if outlier_count == 0",
        "PASS IF nl2 < 1", "anything"}) {
    const StatedTolerance stated = ParseStatedTolerance(text);
    EXPECT_FALSE(stated.predicate.has_value()) << text;
    EXPECT_FALSE(stated.is_covered) << text;
    EXPECT_NE(stated.reason, "") << text;
  }
}

TEST(StatedToleranceTest, APredicateReplacesThatOfTheDefaultPolicyOnly) {
  for (const bool is_default : {true, false}) {
    const predicate::Predicate own =
        *predicate::Predicate::Parse("cosine > 0", MetricNames());
    PairPlan plan;
    plan.way = PairPlan::Way::kBytes;
    plan.verification.predicate = &own;
    plan.verification.is_default = is_default;
    plan.verification.hash_decides = true;
    ApplyStatedTolerance(Stated("pass if nl2 < 1"), plan);
    EXPECT_EQ(plan.verification.predicate->text(),
              is_default ? "nl2 < 1" : "cosine > 0");
    EXPECT_EQ(plan.verification.hash_decides, !is_default);
    EXPECT_EQ(plan.stated != nullptr, is_default);
  }
}

TEST(StatedToleranceTest, APairThatIsNotJudgedIsNotMeasured) {
  PairPlan plan;
  plan.way = PairPlan::Way::kAlone;
  ApplyStatedTolerance(Stated("not checked: random"), plan);
  EXPECT_EQ(plan.way, PairPlan::Way::kStated);
  EXPECT_FALSE(plan.is_measured());
}

TEST(StatedToleranceTest, APairThatIsNotCompleteWaits) {
  PairPlan plan;
  ApplyStatedTolerance(Stated("not checked: random"), plan);
  EXPECT_EQ(plan.way, PairPlan::Way::kLater);
  EXPECT_EQ(plan.stated, nullptr);
}

}  // namespace
}  // namespace msitd::compare
