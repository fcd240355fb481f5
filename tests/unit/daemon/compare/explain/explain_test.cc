// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tests/unit/daemon/compare/explain/explained.h"

namespace msitd::compare::explain {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ExplainTest, UnrelatedTensorHasNoExplanation) {
  EXPECT_THAT(Explain(OpOf(Random({4, 8, 16}, 1), Random({4, 8, 16}, 2))),
              IsEmpty());
}

TEST(ExplainTest, UnrelatedTensorThatIsMuchSmallerHasNoExplanation) {
  for (const double size : {1e-2, 1e-6, 1e3}) {
    const Elements target = Mapped(Random({4, 8, 16}, 2),
                                   [&](double x, size_t) { return size * x; });
    ExaminedOp op = OpOf(Random({4, 8, 16}, 1), target);
    op.noise = NoiseOf(0, DType::kBfloat16);
    EXPECT_THAT(Explain(op), IsEmpty()) << size;
  }
}

TEST(ExplainTest, EqualTensorsHaveNoExplanation) {
  EXPECT_THAT(Explain(OpOf(Random({4, 8}), Random({4, 8}))), IsEmpty());
}

TEST(ExplainTest, DegenerateTensorsHaveNoExplanation) {
  const auto of = [](std::vector<double> golden, std::vector<double> target) {
    const auto count = static_cast<int64_t>(golden.size());
    return Explain(
        OpOf({{count}, std::move(golden)}, {{count}, std::move(target)}));
  };
  EXPECT_THAT(of({}, {}), IsEmpty());
  EXPECT_THAT(of({1}, {2}), IsEmpty());
  EXPECT_THAT(of({1, 2, 3}, {2, 4, 6}), IsEmpty());
  // Constants have too many explanations.
  EXPECT_THAT(of(std::vector<double>(64, 0), std::vector<double>(64, 1)),
              IsEmpty());
  EXPECT_THAT(of(std::vector<double>(64, 3), std::vector<double>(64, 6)),
              IsEmpty());
  EXPECT_THAT(of(std::vector<double>(64, kNan), std::vector<double>(64, 1)),
              IsEmpty());
  EXPECT_THAT(of(std::vector<double>(64, kInf), std::vector<double>(64, kInf)),
              IsEmpty());
}

TEST(ExplainTest, TensorsOfAnyValuesAreSurvived) {
  const double values[] = {0,      -0.0,   kNan,  kInf,  -kInf, 1e308,
                           -1e308, 5e-324, 65504, -1e38, 1,     2};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](const Elements& x) {
      return Mapped(x, [&](double y, size_t) {
        return random() % 4 == 0 ? values[random() % std::size(values)] : y;
      });
    };
    const std::vector<int64_t> shapes[] = {
        {8}, {2, 4}, {1, 16, 1}, {3, 4, 4}, {2, 2, 3, 6}};
    const auto& shape = shapes[seed % std::size(shapes)];
    ExaminedOp op = OpOf(draw(Random(shape, seed)), draw(Random(shape, seed)),
                         {{"input/0", draw(Random(shape, seed + 1))},
                          {"weight/bias", draw(Random({shape.back()}, seed))}});
    op.noise = seed % 3 == 0 ? 0 : op.noise;
    for (const Explanation& one : Explain(op)) {
      EXPECT_TRUE(std::isfinite(one.residual)) << one.text;
    }
  }
}

TEST(ExplainTest, ShapesThatContradictTheirValuesHaveNoExplanation) {
  ExaminedOp op = OpOf(Random({4, 8}), Random({4, 8}, 2));
  op.target.shape = {4, 9};
  EXPECT_THAT(Explain(op), IsEmpty());
  op.target.shape = {-4, -8};
  EXPECT_THAT(Explain(op), IsEmpty());
  op.target.shape = {};
  EXPECT_THAT(Explain(op), IsEmpty());
}

TEST(ExplainTest, NoiseDecidesWhatIsExplained) {
  const Elements golden = Random({16, 32});
  const Elements noise = Random({16, 32}, 2);
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return 0.5 * x + 1e-3 * noise.values[i];
  });
  ExaminedOp op = OpOf(golden, target);
  EXPECT_THAT(Explain(op), IsEmpty());
  op.noise = 1e-3;
  EXPECT_EQ(Only(op).kind, Kind::kFactor);
}

TEST(ExplainTest, TooMuchNoiseExplainsNothing) {
  const Elements golden = Random({16, 32});
  ExaminedOp op =
      OpOf(golden, Mapped(golden, [](double x, size_t) { return 2 * x; }));
  op.noise = 0.04;
  EXPECT_EQ(Only(op).kind, Kind::kFactor);
  op.noise = 0.06;
  EXPECT_THAT(Explain(op), IsEmpty());
  op.noise = kNan;
  EXPECT_THAT(Explain(op), IsEmpty());
}

TEST(ExplainTest, MistakeMustMakeTheDifferenceMuchSmaller) {
  const Elements golden = Random({16, 32});
  const Elements noise = Random({16, 32}, 2);
  // The factor accounts for less than 7/8 of the difference.
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return 1.003 * x + 1e-3 * noise.values[i];
  });
  ExaminedOp op = OpOf(golden, target);
  op.noise = 1e-3;
  EXPECT_THAT(Explain(op), IsEmpty());
}

TEST(ExplainTest, TensorOfAnEarlierTokenIsStale) {
  ExaminedOp op = OpOf(Random({4, 8}), Random({4, 8}, 2));
  op.stale_token = 3;
  const Explanation found = Only(op);
  EXPECT_EQ(found.kind, Kind::kStale);
  EXPECT_EQ(found.text, "the tensor of token 3");
}

TEST(ExplainTest, IndicesThatDifferAreNamed) {
  const Elements golden = Random({4, 8, 16});
  const Elements other = Random({4, 8, 16}, 2);
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return i / 16 % 8 == 3 || i / 16 % 8 == 4 ? other.values[i] : x;
  });
  const Explanation found = Only(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kSubset);
  EXPECT_EQ(found.where, "indices 3-4 of dimension 1");
  EXPECT_EQ(found.text, "2 of 8 indices of dimension 1 differ");
}

TEST(ExplainTest, MistakeOfSomeIndicesIsExplained) {
  const Elements golden = Random({4, 8, 16});
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return i / 16 % 8 == 3 ? 0.25 * x : x;
  });
  const Explanation found = Only(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kFactor);
  EXPECT_EQ(found.where, "index 3 of dimension 1");
  EXPECT_EQ(found.text, "golden * 0.25");
  EXPECT_NEAR(found.residual_without, 0.75, 1e-12);
}

TEST(ExplainTest, DifferenceInMostIndicesIsNoSubset) {
  const Elements golden = Random({4, 8, 16});
  const Elements other = Random({4, 8, 16}, 2);
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return i / 16 % 8 < 5 ? other.values[i] : x;
  });
  EXPECT_THAT(Explain(OpOf(golden, target)), IsEmpty());
}

TEST(ExplainTest, IntegersMustAgreeExactly) {
  Elements golden = Random({8, 8});
  for (size_t i = 0; i < golden.values.size(); ++i)
    golden.values[i] = double(i);
  ExaminedOp op =
      OpOf(golden, Mapped(golden, [](double x, size_t) { return x + 1; }));
  op.dtype = DType::kInt64;
  op.noise = NoiseOf(0, DType::kInt64);
  EXPECT_EQ(op.noise, 0);
  EXPECT_THAT(Explain(op), SizeIs(testing::Ge(1U)));
  EXPECT_EQ(Explain(op).front().kind, Kind::kOffset);
  op.target.values[5] += 1;
  op.target.values[50] += 1;
  EXPECT_THAT(Explain(op), IsEmpty());
}

TEST(NoiseOfTest, IsThatOfTheInputsOrOfTheType) {
  EXPECT_EQ(NoiseOf(0.1, DType::kFloat32), 0.1);
  EXPECT_GT(NoiseOf(0, DType::kBfloat16), NoiseOf(0, DType::kFloat16));
  EXPECT_GT(NoiseOf(0, DType::kFloat16), NoiseOf(0, DType::kFloat32));
  EXPECT_EQ(NoiseOf(0, DType::kInt32), 0);
}

}  // namespace
}  // namespace msitd::compare::explain
