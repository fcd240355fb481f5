// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/compare/view/view_parser.h"
#include "protos/base/shape.h"
#include "tests/unit/daemon/compare/view/naive_view.h"

namespace msitd::compare {
namespace {

using Shape = std::vector<int64_t>;

ViewPlan PlanOfView(std::string_view text, const std::vector<Shape>& shapes) {
  std::vector<ViewLeaf> leaves;
  for (const Shape& shape : shapes) leaves.push_back({shape, DType::kFloat32});
  auto plan = MakeViewPlan(*ParseView(text), leaves);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Returns whether views of a tensor of this shape read all of its elements.
bool CoverAll(const std::vector<std::string>& texts, const Shape& shape,
              uint64_t budget = kCoverageBudget) {
  Coverage coverage(ElementCount(shape));
  for (const std::string& text : texts) {
    coverage.Add(PlanOfView(text, {shape}).terms.front(), 0, budget);
  }
  return coverage.IsComplete(budget);
}

TEST(CoverageTest, PartsOfAFusedTensorCoverItTogether) {
  const Shape shape = {100000, 12};
  const std::string q = "split(-1,2:1:1,0)";
  const std::string k = "split(-1,2:1:1,1)";
  const std::string v = "split(-1,2:1:1,2)";
  EXPECT_TRUE(CoverAll({v, q, k}, shape));
  EXPECT_FALSE(CoverAll({q, k}, shape));
  EXPECT_FALSE(CoverAll({q, k, k}, shape));
  EXPECT_FALSE(CoverAll({}, shape));
  EXPECT_TRUE(CoverAll({v + ".permute(1,0)", q + ".flatten", k}, shape));
  EXPECT_TRUE(CoverAll({"slice(0,0:7)", "slice(0,7:)"}, shape));
  EXPECT_FALSE(CoverAll({"slice(0,0:7)", "slice(0,8:)"}, shape));
  EXPECT_TRUE(CoverAll({"rows(7:,0:7)"}, shape));
  EXPECT_FALSE(CoverAll({"rows(7:,0:6)"}, shape));
}

// Returns whether views read all elements that another one reads.
bool CoverView(const std::vector<std::string>& texts, const std::string& needed,
               const Shape& shape, uint64_t budget = kCoverageBudget) {
  Coverage coverage(ElementCount(shape));
  for (const std::string& text : texts) {
    coverage.Add(PlanOfView(text, {shape}).terms.front(), 0, budget);
  }
  return coverage.Covers(PlanOfView(needed, {shape}).terms.front(), 0, budget);
}

TEST(CoverageTest, PartsOfATensorAreCovered) {
  const Shape shape = {100, 12};
  const std::string rows = "slice(0,40:50)";
  const std::string q = rows + ".split(-1,2:1:1,0)";
  const std::string k = rows + ".split(-1,2:1:1,1)";
  const std::string v = rows + ".split(-1,2:1:1,2)";
  EXPECT_TRUE(CoverView({q, k, v}, rows, shape));
  EXPECT_FALSE(CoverView({q, v}, rows, shape));
  EXPECT_TRUE(CoverView({q, v}, rows + ".slice(1,0:6)", shape));
  EXPECT_FALSE(CoverView({q, v}, rows + ".slice(1,0:7)", shape));
  EXPECT_FALSE(CoverView({q, k, v}, "slice(0,40:51)", shape));
  EXPECT_FALSE(CoverView({q, k, v}, "slice(0,39:50)", shape));
  EXPECT_TRUE(CoverView({"flatten"}, rows, shape));
  EXPECT_FALSE(CoverView({}, rows, shape));
  // Elements that are not listed for lack of budget count as not covered.
  EXPECT_FALSE(CoverView({q, k, v}, rows, shape, 5));
}

TEST(CoverageTest, PaddedBlocksOfScalesAreCovered) {
  const ViewPlan plan =
      PlanOfView("dequantize(s,128:128)", {{576, 7168}, {5, 56}});
  uint64_t budget = kCoverageBudget;
  Coverage coverage(5 * 56);
  coverage.Add(plan.terms[1], 1, budget);
  EXPECT_TRUE(coverage.IsComplete(budget));
  EXPECT_GT(budget, 0u);
}

TEST(CoverageTest, AnExhaustedBudgetIsNotComplete) {
  const std::vector<std::string> parts = {
      "reshape(64,2,8,2).slice(1,0:1).slice(3,0:1)",
      "reshape(64,2,8,2).slice(1,0:1).slice(3,1:2)",
      "reshape(64,2,8,2).slice(1,1:2)"};
  EXPECT_TRUE(CoverAll(parts, {2048}));
  EXPECT_FALSE(CoverAll(parts, {2048}, /*budget=*/100));
}

TEST(CoverageTest, RandomViewsReadTheElementsOfAnArray) {
  std::mt19937 random(5);
  int complete_count = 0;
  for (int i = 0; i < 5000; ++i) {
    const Shape shape = RandomShape(random);
    const uint64_t count = ElementCount(shape);
    const NaiveArray array = Numbered(shape);
    const NaiveArray leaf = Numbered(shape, 100000);
    Coverage coverage(count);
    uint64_t budget = kCoverageBudget;
    std::set<uint64_t> seen;
    std::string texts;
    for (int j = 0; j < 3; ++j) {
      const RandomView view = MakeRandomView(
          array, leaf, 1 + static_cast<int>(random() % 6), random);
      const auto steps = ParseView(view.text);
      std::vector<Shape> shapes(1 + LeafNamesOf(*steps).size(), shape);
      coverage.Add(PlanOfView(view.text, shapes).terms.front(), 0, budget);
      seen.insert(view.result.values.begin(), view.result.values.end());
      texts += view.text + "; ";
    }
    std::erase_if(seen, [count](uint64_t value) { return value >= count; });
    const RandomView needed = MakeRandomView(array, leaf, 3, random);
    const auto needed_steps = ParseView(needed.text);
    const std::vector<Shape> needed_shapes(
        1 + LeafNamesOf(*needed_steps).size(), shape);
    const bool covers = std::all_of(
        needed.result.values.begin(), needed.result.values.end(),
        [&](uint64_t value) { return value >= count || seen.contains(value); });
    ASSERT_EQ(
        coverage.Covers(PlanOfView(needed.text, needed_shapes).terms.front(), 0,
                        budget),
        covers)
        << texts << needed.text;
    const bool is_complete = seen.size() == count;
    complete_count += is_complete ? 1 : 0;
    ASSERT_EQ(coverage.IsComplete(budget), is_complete) << texts;
  }
  EXPECT_GT(complete_count, 100);
  EXPECT_LT(complete_count, 4900);
}

}  // namespace
}  // namespace msitd::compare
