// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_plans.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

TEST(RowPlansTest, APlanAndAnErrorAreMadeOnce) {
  RowPlans plans;
  int made = 0;
  const auto make = [&]() -> absl::StatusOr<SharedPlan> {
    ++made;
    return std::make_shared<const ViewPlan>();
  };
  const auto fail = [&]() -> absl::StatusOr<SharedPlan> {
    ++made;
    return MakeStatus(absl::StatusCode::kFailedPrecondition, "no rows");
  };
  const auto first = plans.Get("a", make);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*plans.Get("a", fail), *first);
  EXPECT_EQ(Message(plans.Get("b", fail).status()), "no rows");
  EXPECT_EQ(Message(plans.Get("b", make).status()), "no rows");
  EXPECT_EQ(made, 2);
}

TEST(RowPlansTest, PlansAreBounded) {
  RowPlans plans;
  const auto make = []() -> absl::StatusOr<SharedPlan> {
    return std::make_shared<const ViewPlan>();
  };
  for (size_t i = 0; i <= kRowPlansMax; ++i) {
    EXPECT_TRUE(plans.Get(std::to_string(i), make).ok());
  }
  EXPECT_EQ(plans.plan_count(), kRowPlansMax);
}

TEST(RowPlansTest, TextIsThatOfThePositions) {
  RowPlans plans;
  EXPECT_EQ(plans.TextOf({{3, 4}}), "position 3");
  EXPECT_EQ(plans.TextOf({{3, 4}}), "position 3");
  EXPECT_EQ(plans.TextOf({{0, 4}, {6, 9}}), "positions 0-3, 6-8");
  EXPECT_EQ(plans.TextOf({{3, 4}}), "position 3");
}

}  // namespace
}  // namespace msitd::compare
