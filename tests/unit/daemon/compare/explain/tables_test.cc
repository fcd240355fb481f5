// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/daemon/compare/explain/explained.h"

// Tables that models compute with: slots of caches, boolean masks, and
// frequencies of rotary embeddings.
namespace msitd::compare::explain {
namespace {

using ::testing::IsEmpty;

// The slots of two requests.
ExaminedOp Slots(const std::vector<std::pair<size_t, double>>& changes) {
  Elements golden{{2, 9}, std::vector<double>(18)};
  std::iota(golden.values.begin(), golden.values.end(), 0.0);
  Elements target = golden;
  for (const auto& [i, value] : changes) target.values[i] = value;
  ExaminedOp op = OpOf(golden, target);
  op.dtype = DType::kInt64;
  op.noise = NoiseOf(0, DType::kInt64);
  return op;
}

TEST(IntegerTablesTest, SlotOfAnotherRequestIsFound) {
  const Explanation found = Only(Slots({{5, 14}}));
  EXPECT_EQ(found.kind, Kind::kOrder);
  EXPECT_EQ(found.text,
            "element [0,5] has the value of [1,5] of golden, another index of "
            "dimension 0");
}

TEST(IntegerTablesTest, SlotsOfAnotherBlockAreFound) {
  const Explanation found = Only(Slots({{0, 40}, {1, 41}, {2, 42}, {3, 43}}));
  EXPECT_EQ(found.kind, Kind::kOffset);
  EXPECT_EQ(found.text, "golden + 40 in 4 elements, the first at [0,0]");
}

TEST(IntegerTablesTest, SlotsInAnotherOrderAreFound) {
  const Explanation found = Only(Slots({{2, 11}, {11, 7}, {7, 2}}));
  EXPECT_EQ(found.kind, Kind::kOrder);
  EXPECT_EQ(found.text,
            "3 elements in another order: [0,2] has the value of [1,2] of "
            "golden");
}

TEST(IntegerTablesTest, OtherSlotsHaveNoMistake) {
  // Which elements differ may be stated, but not why.
  for (const auto& op :
       {Slots({{5, 77}}), Slots({{5, 15}}), Slots({{5, 77}, {6, 78}}),
        Slots({{1, 77}, {2, 91}, {3, 20}})}) {
    for (const Explanation& one : Explain(op)) {
      EXPECT_EQ(one.kind, Kind::kSubset) << one.text;
    }
  }
}

ExaminedOp Masks(int golden_shift, int target_shift, bool is_scattered) {
  const auto draw = [is_scattered](int shift) {
    Elements out{{1, 8, 8}, {}};
    for (int i = 0; i < 64; ++i) {
      const bool is_open =
          is_scattered ? (i * 7 + shift) % 3 == 0 : i % 8 <= i / 8 + shift;
      out.values.push_back(is_open ? 1 : 0);
    }
    return out;
  };
  ExaminedOp op = OpOf(draw(golden_shift), draw(target_shift));
  op.dtype = DType::kBool;
  op.noise = 0;
  return op;
}

TEST(MasksTest, BooleanMaskOfOtherPositionsIsFound) {
  const Explanation found = Only(Masks(0, 1, false));
  EXPECT_EQ(found.kind, Kind::kMask);
  EXPECT_EQ(found.text,
            "boolean mask of other positions: 0 more are false, 7 more are "
            "true");
}

TEST(MasksTest, BooleansThatAreNotRangesAreNoMask) {
  for (const Explanation& one : Explain(Masks(0, 1, true))) {
    EXPECT_NE(one.kind, Kind::kMask) << one.text;
  }
}

TEST(MasksTest, MaskWithoutScoresIsFound) {
  Elements golden{{8, 8}, std::vector<double>(64)};
  Elements target = golden;
  for (size_t i = 0; i < 64; ++i) {
    if (i % 8 > i / 8) golden.values[i] = target.values[i] = -3.4e38;
    if (i % 8 + 4 <= i / 8) target.values[i] = -3.4e38;
  }
  EXPECT_EQ(Only(OpOf(golden, target)).text,
            "mask of other positions: closes 10 more");
  const Elements open{{8, 8}, std::vector<double>(64)};
  EXPECT_EQ(Only(OpOf(open, golden)).text,
            "mask of other positions: closes 28 more");
}

TEST(MasksTest, MaskWithSeveralClosingValuesIsFound) {
  // A causal mask with the least float, and a window with -10,000 in bfloat16.
  Elements golden{{8, 8}, std::vector<double>(64)};
  Elements target = golden;
  for (size_t i = 0; i < 64; ++i) {
    if (i % 8 > i / 8) golden.values[i] = target.values[i] = -3.4e38;
    if (i % 8 + 4 <= i / 8) golden.values[i] = -9984;
  }
  EXPECT_EQ(Only(OpOf(golden, target)).text,
            "mask of other positions: opens 10 more");
}

Elements Rates(double base, double scale, bool is_inverse) {
  Elements out{{8}, {}};
  for (size_t i = 0; i < 8; ++i) {
    const double rate = scale * std::pow(base, -double(i) / 8);
    out.values.push_back(is_inverse ? 1 / rate : rate);
  }
  return out;
}

TEST(RotaryRatesTest, BaseAndScaleAreFound) {
  for (const bool is_inverse : {false, true}) {
    const Elements golden = Rates(1e4, 1, is_inverse);
    const Explanation base = Only(OpOf(golden, Rates(5e5, 1, is_inverse)));
    EXPECT_EQ(base.kind, Kind::kRopeBase);
    EXPECT_EQ(base.text, "rotary frequencies of base 500000 in place of 10000");
    const Explanation scale = Only(OpOf(golden, Rates(1e4, 0.25, is_inverse)));
    EXPECT_EQ(scale.kind, Kind::kRopeBase);
    EXPECT_EQ(scale.text, "rotary frequencies * 0.25");
  }
}

TEST(RotaryRatesTest, OtherRatesAreNotExplained) {
  const Elements golden = Rates(1e4, 1, false);
  const Elements other =
      Mapped(golden, [](double x, size_t i) { return i < 4 ? x : x / 8; });
  for (const Explanation& one : Explain(OpOf(golden, other))) {
    EXPECT_NE(one.kind, Kind::kRopeBase) << one.text;
  }
  EXPECT_THAT(Explain(OpOf(golden, Random({8}))), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare::explain
