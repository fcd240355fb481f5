// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_plans.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

std::string TextOf(RowPlans& plans, const std::vector<RowRange>& positions) {
  return plans.TextOf(positions);
}

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
  const auto first = plans.Get({1}, make);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*plans.Get({1}, fail), *first);
  EXPECT_EQ(Message(plans.Get({1, 2}, fail).status()), "no rows");
  EXPECT_EQ(Message(plans.Get({1, 2}, make).status()), "no rows");
  EXPECT_EQ(*plans.Get({1}, fail), *first);
  EXPECT_EQ(made, 2);
  plans.Clear();
  EXPECT_EQ(Message(plans.Get({1}, fail).status()), "no rows");
  EXPECT_EQ(made, 3);
}

TEST(RowPlansTest, PlansAreBounded) {
  RowPlans plans;
  const auto make = []() -> absl::StatusOr<SharedPlan> {
    return std::make_shared<const ViewPlan>();
  };
  for (size_t i = 0; i <= kRowPlansMax; ++i) {
    EXPECT_TRUE(plans.Get({static_cast<int64_t>(i)}, make).ok());
  }
  EXPECT_EQ(plans.plan_count(), kRowPlansMax);
}

TEST(RowPlansTest, TextIsThatOfThePositions) {
  RowPlans plans;
  EXPECT_EQ(TextOf(plans, {{3, 4}}), "position 3");
  EXPECT_EQ(TextOf(plans, {{3, 4}}), "position 3");
  EXPECT_EQ(TextOf(plans, {{0, 4}, {6, 9}}), "positions 0-3, 6-8");
  EXPECT_EQ(TextOf(plans, {{3, 4}}), "position 3");
}

}  // namespace
}  // namespace msitd::compare
