// SPDX-License-Identifier: Apache-2.0
// Tests of view_plan and gather.
#include "daemon/compare/view/view_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "daemon/compare/view/view_parser.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/compare/view/naive_view.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;

absl::StatusOr<ViewPlan> PlanOfLeaves(std::string_view text,
                                      const std::vector<ViewLeaf>& leaves) {
  MSITD_ASSIGN_OR_RETURN(const auto steps, ParseView(text));
  return MakeViewPlan(steps, leaves);
}

ViewPlan PlanOf(std::string_view text, const Shape& shape) {
  auto plan =
      PlanOfLeaves(text, std::vector<ViewLeaf>{{shape, DType::kFloat32}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::string Problem(std::string_view text, const Shape& shape) {
  const auto plan =
      PlanOfLeaves(text, std::vector<ViewLeaf>{{shape, DType::kFloat32}});
  EXPECT_FALSE(plan.ok()) << text;
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(Message(plan.status()));
}

// Reads a part of a gather from arrays.
std::vector<uint64_t> Read(const Gather& gather,
                           const std::vector<const NaiveArray*>& leaves,
                           uint64_t begin, uint64_t count) {
  constexpr uint64_t kUnset = ~uint64_t{0};
  std::vector<uint64_t> out(count, kUnset);
  uint64_t next = 0;
  gather.VisitRuns(begin, count, [&](const GatherRun& run) {
    EXPECT_EQ(run.to, next);
    EXPECT_TRUE(run.count == 1 || run.stride >= run.length ||
                (run.stride == 0 && run.length == 1));
    for (uint64_t i = 0; i < run.count; ++i) {
      for (uint64_t j = 0; j < run.length; ++j) {
        out.at(next++) =
            leaves.at(run.leaf)->values.at(run.from + i * run.stride + j);
      }
    }
  });
  EXPECT_EQ(next, count);
  return out;
}

TEST(ViewPlanTest, RandomViewsAreThoseOfAnArray) {
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    const Shape shape = RandomShape(random);
    const NaiveArray array = Numbered(shape);
    const NaiveArray leaf = Numbered(shape, 100000);
    const RandomView view =
        MakeRandomView(array, leaf, 1 + static_cast<int>(random() % 8), random);
    const auto steps = ParseView(view.text);
    ASSERT_TRUE(steps.ok()) << steps.status();
    std::vector<ViewLeaf> leaves = {{shape, DType::kFloat32}};
    if (!LeafNamesOf(*steps).empty()) leaves.push_back(leaves.front());
    const auto plan = MakeViewPlan(*steps, leaves);
    ASSERT_TRUE(plan.ok()) << view.text << ": " << plan.status();
    ASSERT_EQ(plan->shape, view.result.shape) << view.text;
    const uint64_t count = ElementCount(plan->shape);
    const Gather& gather = plan->terms.front();
    ASSERT_EQ(Read(gather, {&array, &leaf}, 0, count), view.result.values)
        << view.text;
    const uint64_t begin = random() % (count + 1);
    const uint64_t some = random() % (count - begin + 1);
    const std::vector<uint64_t> part(
        view.result.values.begin() + static_cast<ptrdiff_t>(begin),
        view.result.values.begin() + static_cast<ptrdiff_t>(begin + some));
    ASSERT_EQ(Read(gather, {&array, &leaf}, begin, some), part) << view.text;
    std::vector<uint64_t> sorted = view.result.values;
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint64_t> all = array.values;
    if (leaves.size() > 1) {
      all.insert(all.end(), leaf.values.begin(), leaf.values.end());
    }
    // A view may keep all elements although the plan does not know it.
    if (plan->keeps_all()) {
      ASSERT_EQ(sorted, all) << view.text;
    }
    if (plan->is_identity()) {
      ASSERT_EQ(view.result.values, array.values) << view.text;
    }
  }
}

TEST(ViewPlanTest, SharedStridesNeedNoFurtherLevel) {
  const ViewPlan plan =
      PlanOf("transpose(0,1).reshape(6,4,2,8).permute(1,0,2,3).flatten(1,2)",
             {4, 6, 16});
  EXPECT_THAT(plan.shape, ElementsAre(4, 12, 8));
  EXPECT_TRUE(plan.is_identity());
  EXPECT_TRUE(PlanOf("flatten.reshape(2,2).flatten(0,-1)", {4}).is_identity());
  EXPECT_FALSE(PlanOf("transpose(0,1)", {2, 2}).is_identity());
  EXPECT_TRUE(PlanOf("transpose(0,1)", {2, 2}).keeps_all());
  EXPECT_TRUE(PlanOf("transpose(0,1)", {1, 5}).is_identity());
  EXPECT_FALSE(PlanOf("slice(0,1:2)", {2, 2}).keeps_all());
  EXPECT_TRUE(PlanOf("slice(0,0:2)", {2, 2}).is_identity());
}

TEST(ViewPlanTest, AscendingViewsAreRecognized) {
  const auto is_ascending = [](std::string_view text, const Shape& shape) {
    return PlanOf(text, shape).terms.front().is_ascending();
  };
  EXPECT_TRUE(is_ascending("split(-1,1:1:1,1)", {4, 6}));
  EXPECT_TRUE(is_ascending("slice(0,1:2).slice(1,2:4)", {4, 6}));
  EXPECT_FALSE(is_ascending("permute(1,0)", {4, 6}));
  EXPECT_FALSE(is_ascending("rows(2,1)", {4, 6}));
}

TEST(ViewPlanTest, ViewsThatDoNotFitHaveAReason) {
  EXPECT_EQ(Problem("permute(1,0)", {2, 3, 4}),
            "permute(1,0) does not fit [2,3,4]: it has 3 dimensions");
  EXPECT_THAT(Problem("permute(0,0)", {2, 3}), HasSubstr("0 is used twice"));
  EXPECT_THAT(Problem("permute(0,2)", {2, 3}), HasSubstr("no dimension 2"));
  EXPECT_THAT(Problem("reshape(4,-1)", {2, 3}), HasSubstr("not a multiple"));
  EXPECT_THAT(Problem("reshape(-1,-1)", {2, 3}), HasSubstr("only one"));
  EXPECT_THAT(Problem("reshape(0,-1)", {2, 3}), HasSubstr("not a multiple"));
  EXPECT_THAT(Problem("reshape(7)", {2, 3}), HasSubstr("6 elements"));
  EXPECT_THAT(Problem("reshape(1099511627776,1099511627776)", {2, 3}),
              HasSubstr("too many"));
  EXPECT_THAT(Problem("slice(0,1:3)", {2, 3}), HasSubstr("exceeds"));
  EXPECT_THAT(Problem("slice(0,-3:)", {2, 3}), HasSubstr("exceeds"));
  EXPECT_THAT(Problem("slice(0,2:1)", {2, 3}), HasSubstr("exceeds"));
  EXPECT_THAT(Problem("split(-1,2:2,0)", {2, 3}), HasSubstr("not a multiple"));
  EXPECT_THAT(Problem("split(-1,1:2,0,99)", {2, 3}),
              HasSubstr("not a multiple"));
  EXPECT_THAT(Problem("rows(0)", {}), HasSubstr("no rows"));
  EXPECT_THAT(Problem("rows(2)", {2, 3}), HasSubstr("exceeds"));
  EXPECT_THAT(Problem("heads(2)", {4}), HasSubstr("two dimensions"));
  EXPECT_THAT(Problem("heads(2)", {2, 3}), HasSubstr("not a multiple"));
  EXPECT_THAT(Problem("rope_pairs(1)", {2, 3}), HasSubstr("odd"));
  EXPECT_THAT(Problem("any_order(2)", {2, 3}), HasSubstr("no dimension 2"));
  EXPECT_THAT(Problem("any_order(0)", {}), HasSubstr("no dimension 0"));
  EXPECT_THAT(Problem("flatten(1,0)", {2, 3}), HasSubstr("after its last"));
  EXPECT_THAT(Problem("transpose(0,1).slice(0,0:4)", {2, 3}),
              HasSubstr("slice(0,0:4) does not fit [3,2]"));
  std::string deep = "heads(1)";
  for (int i = 1; i < 32; ++i) deep += ".heads(1)";
  EXPECT_THAT(Problem(deep, {2, 3}), HasSubstr("more than 32 dimensions"));
}

TEST(ViewPlanTest, AnyOrderKeepsTheElementsInTheirPlaces) {
  const ViewPlan plan = PlanOf("reshape(2,3,2).any_order(-2)", {6, 2});
  EXPECT_EQ(plan.any_order, 1u);
  EXPECT_TRUE(plan.is_identity());
  EXPECT_THAT(plan.shape, ElementsAre(2, 3, 2));
}

TEST(ViewPlanTest, EmptyTensorsHaveViews) {
  EXPECT_THAT(PlanOf("permute(1,0)", {0, 3}).shape, ElementsAre(3, 0));
  EXPECT_THAT(PlanOf("reshape(5,0)", {0, 3}).shape, ElementsAre(5, 0));
  EXPECT_THAT(PlanOf("slice(0,1:1)", {2, 3}).shape, ElementsAre(0, 3));
  EXPECT_THAT(PlanOf("slice(0,1:1).flatten", {2, 3}).shape, ElementsAre(0));
}

TEST(ViewPlanTest, TensorsOfAConcatenationMustAgree) {
  const auto problem = [](const std::vector<ViewLeaf>& leaves) {
    return std::string(Message(PlanOfLeaves("concat(1,k)", leaves).status()));
  };
  EXPECT_THAT(problem({{{2, 3}, DType::kFloat32}, {{3, 3}, DType::kFloat32}}),
              HasSubstr("tensor 1 has shape [3,3]"));
  EXPECT_THAT(problem({{{2, 3}, DType::kFloat32}, {{2, 3}, DType::kFloat16}}),
              HasSubstr("float16 and not float32"));
  EXPECT_THAT(problem({{{2, 3}, DType::kFloat32}, {{2}, DType::kFloat32}}),
              HasSubstr("has shape [2]"));
  EXPECT_EQ(problem({{{2, 3}, DType::kFloat32}, {{2, 9}, DType::kFloat32}}),
            "");
}

TEST(ViewPlanTest, SumsHaveAWideType) {
  const auto type = [](DType a, DType b) {
    const auto plan =
        PlanOfLeaves("sum(k)", std::vector<ViewLeaf>{{{2}, a}, {{2}, b}});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->dtype;
  };
  EXPECT_EQ(type(DType::kBfloat16, DType::kBfloat16), DType::kFloat32);
  EXPECT_EQ(type(DType::kBfloat16, DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(type(DType::kInt32, DType::kInt32), DType::kFloat64);
  EXPECT_FALSE(
      PlanOfLeaves("sum(k)", std::vector<ViewLeaf>{{{2}, DType::kFloat32},
                                                   {{3}, DType::kFloat32}})
          .ok());
  EXPECT_FALSE(PlanOfLeaves("sum(k).concat(0,k)",
                            std::vector<ViewLeaf>(3, {{2}, DType::kFloat32}))
                   .ok());
}

// Returns the scale of each element, by numbers of scales.
std::vector<uint64_t> ScalesOf(std::string_view text, const Shape& shape,
                               const Shape& scale) {
  const auto plan = PlanOfLeaves(
      text,
      std::vector<ViewLeaf>{{shape, DType::kInt8}, {scale, DType::kFloat32}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->shape, shape);
  const NaiveArray numbers = Numbered(scale);
  return Read(plan->terms[1], {nullptr, &numbers}, 0, ElementCount(shape));
}

TEST(ViewPlanTest, ScalesAreThoseOfTheBlocks) {
  EXPECT_THAT(ScalesOf("dequantize(s)", {2, 2}, {1}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ScalesOf("dequantize(s)", {2, 4}, {2, 2}),
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(ScalesOf("dequantize(s,1:0)", {2, 3}, {2}),
              ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(ScalesOf("dequantize(s,0:1)", {2, 3}, {3}),
              ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(ScalesOf("dequantize(s,2)", {2, 3}, {2, 2}),
              ElementsAre(0, 0, 1, 2, 2, 3));
  EXPECT_THAT(ScalesOf("dequantize(s,2:2)", {3, 3}, {2, 2}),
              ElementsAre(0, 0, 1, 0, 0, 1, 2, 2, 3));
  EXPECT_THAT(ScalesOf("dequantize(s,2:1).slice(1,0:2)", {3, 2}, {2, 2}),
              ElementsAre(0, 1, 0, 1, 2, 3));
}

TEST(ViewPlanTest, AnUnboundedNumberOfElementsIsRefused) {
  const std::string eight = "rows(:,:,:,:,:,:,:,:)";
  std::string text = eight;
  EXPECT_THAT(PlanOf(text + "." + eight, {1, 1024}).shape,
              ElementsAre(64, 1024));
  for (int i = 1; i < 18; ++i) text += "." + eight;
  // The number of elements of all steps together is 0 modulo 2^64.
  EXPECT_THAT(Problem(text + ".slice(0,0:1)", {1, 1024}),
              HasSubstr("[4096,1024] has more than 1048576 elements"));
  EXPECT_THAT(Problem(text, {3, 0}), HasSubstr("more than 1048576"));
  EXPECT_EQ(PlanOf("rows(:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:)", {1 << 20}).shape,
            (Shape{1 << 24}));
  EXPECT_THAT(Problem("rows(:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:,:)", {1 << 20}),
              HasSubstr("more than 16777216 elements"));
  EXPECT_THAT(Problem("reshape(0,1099511627776,1099511627776)", {0}),
              HasSubstr("more than 1048576"));
}

TEST(ViewPlanTest, BlocksMayBeLongerThanTheDimension) {
  EXPECT_THAT(ScalesOf("dequantize(s,2:1099511627776:1099511627776)", {3, 1, 2},
                       {2, 1, 1}),
              ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(ScalesOf("dequantize(s,128:128)", {2, 2}, {1, 1}),
              ElementsAre(0, 0, 0, 0));
}

TEST(ViewPlanTest, AZeroPointMayBeAScalar) {
  const auto plan = [](const Shape& zero) {
    return PlanOfLeaves("dequantize(s,z,1:2)",
                        std::vector<ViewLeaf>{{{2, 4}, DType::kInt8},
                                              {{2, 2}, DType::kFloat32},
                                              {zero, DType::kInt8}});
  };
  const auto scalar = plan({1});
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  const NaiveArray numbers = Numbered({1});
  EXPECT_THAT(Read(scalar->terms[2], {nullptr, nullptr, &numbers}, 0, 8),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(std::string(Message(plan({3}).status())),
              HasSubstr("a zero point of shape [3]"));
}

TEST(ViewPlanTest, ScalesThatDoNotFitHaveAReason) {
  const auto problem = [](std::string_view text, const Shape& scale) {
    return std::string(Message(
        PlanOfLeaves(text, std::vector<ViewLeaf>{{{4, 6}, DType::kInt8},
                                                 {scale, DType::kFloat32}})
            .status()));
  };
  EXPECT_THAT(problem("dequantize(s)", {4}), HasSubstr("needs the lengths"));
  EXPECT_THAT(problem("dequantize(s)", {3, 6}), HasSubstr("does not divide"));
  EXPECT_THAT(
      problem("dequantize(s,2:2)", {2, 2}),
      HasSubstr("a scale of shape [2,2] does not have the shape [2,3] of the "
                "blocks"));
  EXPECT_THAT(
      problem("dequantize(s,2:2)", {3, 2}),
      HasSubstr("a scale of shape [3,2] does not have the shape [2,3]"));
  EXPECT_EQ(problem("dequantize(s,2:2)", {2, 1, 3}), "");
  EXPECT_EQ(problem("dequantize(s,2:2)", {6}), "");
  EXPECT_THAT(problem("dequantize(s,1:2:2)", {2}), HasSubstr("2 dimensions"));
  EXPECT_THAT(problem("slice(0,0:0).dequantize(s)", {1}),
              HasSubstr("no elements"));
}

}  // namespace
}  // namespace msitd::compare
