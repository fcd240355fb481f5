// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/few_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/compare/explain/explained.h"

namespace msitd::compare::explain {
namespace {

using ::testing::IsEmpty;

std::string TextOf(std::vector<double> golden, std::vector<double> target,
                   DType dtype = DType::kFloat32) {
  const auto count = static_cast<int64_t>(golden.size());
  const std::vector<int64_t> shape =
      count == 1 ? std::vector<int64_t>() : std::vector<int64_t>{count};
  ExaminedOp op = OpOf({shape, std::move(golden)}, {shape, std::move(target)});
  op.dtype = dtype;
  const std::vector<Explanation> out = Explain(op);
  return out.empty() ? "" : out.front().text;
}

TEST(FewElementsTest, UsualFactorOfALossIsFound) {
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * 510}), "golden * 510");
  EXPECT_EQ(TextOf({5.5617}, {5.5617 / 8}), "golden * 0.125");
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * 4.5 * (1 + 1e-7)}), "golden * 4.5");
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * 65536}), "golden * 65536");
  EXPECT_EQ(TextOf({5.5617}, {-5.5617}), "golden with the opposite sign");
  EXPECT_EQ(TextOf({1.25, 2, 3.5}, {2.5, 4, 7}), "golden * 2");
}

TEST(FewElementsTest, OtherFactorsAreNotExplained) {
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * 1.37}), "");
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * 2.0001}), "");
  EXPECT_EQ(TextOf({5.5617}, {5.5617}), "");
  EXPECT_EQ(TextOf({5.5617}, {5.5617 * (1 + 1e-6)}), "");
  EXPECT_EQ(TextOf({5.5617}, {0}), "");
  EXPECT_EQ(TextOf({0}, {5.5617}), "");
  EXPECT_EQ(TextOf({1.25, 2, 3.5}, {2.5, 4, 7.01}), "");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(TextOf({5.5617}, {inf}), "");
}

TEST(FewElementsTest, WholeNumbersAreNotExplained) {
  // A position, for example.
  EXPECT_EQ(TextOf({8}, {4}), "");
}

TEST(FewElementsTest, OrderOfIntegersIsFound) {
  EXPECT_EQ(TextOf({16, 20}, {20, 16}, DType::kInt64),
            "the elements in another order: 1,0");
  EXPECT_EQ(TextOf({16, 20}, {20, 20}, DType::kInt64), "");
  EXPECT_EQ(TextOf({16, 16, 20}, {20, 16, 16}, DType::kInt64), "");
  EXPECT_EQ(TextOf({16}, {20}, DType::kInt64), "");
}

TEST(FewElementsTest, TypesWithFewDigitsAreNotExplained) {
  EXPECT_EQ(TextOf({5.5}, {11}, DType::kBfloat16), "");
  EXPECT_EQ(TextOf({5}, {10}, DType::kInt64), "");
}

}  // namespace
}  // namespace msitd::compare::explain
