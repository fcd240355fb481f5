// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/read_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "daemon/compare/view/plan_cache.h"
#include "daemon/compare/view/view_parser.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

uint64_t Reads(std::string_view text, std::vector<int64_t> shape) {
  const auto steps = ParseView(text);
  EXPECT_TRUE(steps.ok()) << steps.status();
  const std::vector<ViewLeaf> leaves = {{std::move(shape), DType::kBfloat16}};
  const auto plan = MakeViewPlan(*steps, leaves);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return EstimatedReads(*plan, leaves);
}

TEST(ReadCostTest, LocalViewsReadOnce) {
  EXPECT_EQ(Reads("flatten", {4096, 4096}), 1u);
  EXPECT_EQ(Reads("slice(1,0:7)", {4096, 4096}), 1u);
  // Within one part of 4 MiB.
  EXPECT_EQ(Reads("permute(2,1,0)", {2, 1024, 1024}), 1u);
  // Each piece is from one part of the tensor.
  EXPECT_THAT(Reads("permute(0,2,1)", {65536, 64, 64}), Le(2u));
}

TEST(ReadCostTest, ATransposedMatrixIsReadOnceForEachPiece) {
  EXPECT_EQ(Reads("transpose(0,1)", {4096, 4096}), 1u);
  EXPECT_THAT(Reads("transpose(0,1)", {16384, 16384}), AllOf(Ge(15u), Le(17u)));
}

TEST(ReadCostTest, ShortRunsEndPassesEarly) {
  EXPECT_THAT(Reads("permute(2,1,0)", {2, 2048, 2048}),
              AllOf(Ge(33u), Le(65u)));
}

TEST(ReadCostTest, ViewsThatReadTooOftenAreRefused) {
  PlanCache plans;
  const auto plan_of = [&plans](std::vector<int64_t> shape,
                                bool is_read = true) {
    const auto steps = ParseView("permute(2,1,0)");
    const std::vector<ViewLeaf> leaves = {{std::move(shape), DType::kBfloat16}};
    return plans.Get("permute(2,1,0)", *steps, leaves, is_read);
  };
  EXPECT_TRUE(plan_of({2, 2048, 2048}).ok());
  const auto refused = plan_of({2, 16384, 16384});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  // Statistics and summaries are not read.
  EXPECT_TRUE(plan_of({2, 16384, 16384}, /*is_read=*/false).ok());
  EXPECT_THAT(Message(refused.status()), HasSubstr("would read the tensor"));
}

}  // namespace
}  // namespace msitd::compare
