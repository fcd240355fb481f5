// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/compare/view/view_parser.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<SharedPlan> Get(PlanCache& plans, const std::string& text,
                               std::vector<int64_t> shape,
                               DType dtype = DType::kFloat32) {
  const auto steps = ParseView(text);
  EXPECT_TRUE(steps.ok()) << steps.status();
  const std::vector<ViewLeaf> leaves = {{std::move(shape), dtype}};
  return plans.Get(text, *steps, leaves, /*is_read=*/true);
}

TEST(PlanCacheTest, EqualShapesAndTypesHaveOnePlan) {
  PlanCache plans;
  for (int i = 0; i < 3; ++i) {
    const auto plan = Get(plans, "permute(1,0)", {2, 3});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT((*plan)->shape, ElementsAre(3, 2));
  }
  EXPECT_EQ(plans.plan_count(), 1u);
  EXPECT_THAT((*Get(plans, "permute(1,0)", {3, 2}))->shape, ElementsAre(2, 3));
  EXPECT_THAT((*Get(plans, "flatten", {3, 2}))->shape, ElementsAre(6));
  EXPECT_EQ((*Get(plans, "flatten", {3, 2}, DType::kInt8))->dtype,
            DType::kInt8);
  EXPECT_EQ(plans.plan_count(), 4u);
}

TEST(PlanCacheTest, AProblemIsThatOfTheShape) {
  PlanCache plans;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Message(Get(plans, "permute(1,0)", {2}).status()),
                HasSubstr("does not fit [2]"));
    EXPECT_TRUE(Get(plans, "permute(1,0)", {2, 2}).ok());
  }
}

TEST(PlanCacheTest, PlansAreBounded) {
  PlanCache plans(/*texts_max=*/15);
  EXPECT_TRUE(Get(plans, "flatten", {2, 2}).ok());
  EXPECT_TRUE(Get(plans, "flatten", {2, 3}).ok());
  EXPECT_TRUE(Get(plans, "flatten", {2, 2}).ok());
  const auto plan = Get(plans, "flatten", {2, 4});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(plan.status()), HasSubstr("more than 15 bytes"));
  EXPECT_TRUE(Get(plans, "flatten", {2, 3}).ok());
}

}  // namespace
}  // namespace msitd::compare
