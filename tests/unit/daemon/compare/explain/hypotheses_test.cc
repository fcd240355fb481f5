// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"
#include "tests/unit/daemon/compare/explain/explained.h"

namespace msitd::compare::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Explanation First(const ExaminedOp& op) {
  const std::vector<Explanation> out = Explain(op);
  return out.empty() ? Explanation() : out.front();
}

TEST(FactorsTest, FactorSignAndConstantAreFound) {
  const Elements golden = Random({2, 8, 16});
  const auto explained = [&](double factor, double offset) {
    return Only(OpOf(golden, Mapped(golden, [&](double x, size_t) {
                       return factor * x + offset;
                     })));
  };
  EXPECT_EQ(explained(0.125, 0).text, "golden * 0.125");
  EXPECT_EQ(explained(1024, 0).text, "golden * 1024");
  EXPECT_EQ(explained(-1, 0).kind, Kind::kSign);
  EXPECT_EQ(explained(1, 3).text, "golden + 3");
  EXPECT_EQ(explained(2, -1).text, "golden * 2 + -1");
  EXPECT_EQ(explained(2, -1).kind, Kind::kAffine);
  // The error is 5 % of the target, and only 0.05 % of golden.
  ExaminedOp rough =
      OpOf(golden, Mapped(golden, [](double x, size_t i) {
             return 0.01 * x * (i * 2654435761U % 7 < 3 ? 1.05 : 0.95);
           }));
  rough.noise = 1e-3;
  EXPECT_TRUE(Explain(rough).empty());
}

TEST(FactorsTest, TargetWithOneValueIsNotAFactorOfGolden) {
  const Elements golden = Random({2, 8, 16});
  const auto explained = [&](double value) {
    return Only(
        OpOf(golden, Mapped(golden, [&](double, size_t) { return value; })));
  };
  EXPECT_EQ(explained(0).kind, Kind::kZeros);
  EXPECT_EQ(explained(0).text, "zeros in place of all elements");
  EXPECT_THAT(explained(0).parameters, ElementsAre(1));
  EXPECT_EQ(explained(0.25).kind, Kind::kAffine);
  EXPECT_EQ(explained(0.25).text, "0.25 in place of all elements");
  const Explanation rows = Only(OpOf(
      golden,
      Mapped(golden, [](double x, size_t i) { return i / 16 == 3 ? 0 : x; })));
  EXPECT_EQ(rows.kind, Kind::kZeros);
}

TEST(FactorsTest, FactorAndConstantOfEachIndexAreFound) {
  const Elements golden = Random({2, 8, 16});
  const Explanation channels =
      Only(OpOf(golden, Mapped(golden, [](double x, size_t i) {
                  return x * (1 + double(i % 16));
                })));
  EXPECT_EQ(channels.kind, Kind::kFactor);
  EXPECT_EQ(channels.text,
            "golden * a factor for each index of dimension 2, 1 to 16");
  const Explanation rows = Only(OpOf(
      golden,
      Mapped(golden, [](double x, size_t i) { return x + double(i / 16); })));
  EXPECT_EQ(rows.kind, Kind::kOffset);
  EXPECT_EQ(rows.text, "golden + a constant for each row, 0 to 15");
}

TEST(FactorsTest, OneRowDoesNotShowAConstantOfEachChannel) {
  const Elements golden = Random({1, 1, 64});
  const Elements bias = Random({64}, 2);
  const Elements target =
      Mapped(golden, [&](double x, size_t i) { return x - bias.values[i]; });
  EXPECT_EQ(First(OpOf(golden, target)).kind, Kind::kUnspecified);
  EXPECT_EQ(Only(OpOf(golden, target, {{"weight/bias", bias}})).text,
            "golden without weight/bias");
}

TEST(TermsTest, OtherInputIsNamedWithTheOneThatGoldenHas) {
  const Elements cosines = Random({4, 8}, 1);
  const Elements sines = Random({4, 8}, 2);
  const Explanation other =
      Only(OpOf(cosines, sines, {{"input/0", cosines}, {"input/1", sines}}));
  EXPECT_EQ(other.kind, Kind::kSameAsInput);
  EXPECT_EQ(other.text, "input/1 in place of input/0");
  const Elements norm = Random({4, 8}, 3);
  EXPECT_EQ(Only(OpOf(norm, sines, {{"input/1", sines}})).text,
            "input/1 unchanged");
}

TEST(TermsTest, TermThatIsMissingOrAddedAgainIsNamed) {
  const Elements a = Random({4, 8}, 1);
  const Elements b = Random({4, 8}, 2);
  const Elements golden =
      Mapped(a, [&](double x, size_t i) { return 2 * x + b.values[i]; });
  const auto explained = [&](double count) {
    return First(OpOf(
        golden,
        Mapped(golden,
               [&](double x, size_t i) { return x + count * b.values[i]; }),
        {{"input/0", a}, {"input/1", b}}));
  };
  EXPECT_EQ(explained(-1).text, "golden without input/1");
  EXPECT_EQ(explained(1).text, "golden + input/1");
  EXPECT_EQ(explained(-0.5).text, "golden + -0.5 * input/1");
}

TEST(TermsTest, OpWithoutEffectReturnsItsInput) {
  const Elements x = Random({4, 8}, 1);
  const Explanation found = First(OpOf(Random({4, 8}, 2), x, {{"input/0", x}}));
  EXPECT_EQ(found.kind, Kind::kSameAsInput);
  EXPECT_EQ(found.text, "input/0 unchanged");
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

TEST(ActivationsTest, VariantAndSwappedInputsAreNamed) {
  const Elements a = Random({8, 32}, 1);
  const Elements b = Random({8, 32}, 2);
  const Elements silu = Mapped(a, [](double x, size_t) { return Silu(x); });
  const Elements relu =
      Mapped(a, [](double x, size_t) { return std::max(x, 0.0); });
  EXPECT_EQ(Only(OpOf(silu, relu, {{"input/0", a}})).text,
            "relu in place of silu");
  const Elements gated =
      Mapped(a, [&](double x, size_t i) { return Silu(x) * b.values[i]; });
  const Elements swapped =
      Mapped(a, [&](double x, size_t i) { return x * Silu(b.values[i]); });
  const Explanation found = Only(OpOf(gated, swapped, {{"a", a}, {"b", b}}));
  EXPECT_EQ(found.kind, Kind::kSwappedInputs);
}

TEST(OrdersTest, HeadsThatChangedPlacesAreNamed) {
  const Elements golden = Random({4, 8, 16});
  Elements target = golden;
  for (size_t i = 0; i < target.values.size(); ++i) {
    const size_t head = i / 16 % 8;
    const size_t other = head == 2 ? 5 : head == 5 ? 2 : head;
    target.values[i] = golden.values[i + 16 * other - 16 * head];
  }
  const Explanation found = First(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kOrder);
  EXPECT_EQ(found.text, "the indices of dimension 1 2 and 5 changed places");
}

TEST(OrdersTest, RowsOfAnotherRequestAreNamed) {
  const Elements golden = Random({3, 4, 16});
  Elements target = golden;
  for (size_t i = 0; i < 64; ++i)
    target.values[64 + i] = golden.values[128 + i];
  const Explanation found = First(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kOrder);
  EXPECT_EQ(found.text, "the indices of dimension 0: 1 has the values of 2");
}

TEST(OrdersTest, RowsThatMovedAreAShift) {
  const Elements golden = Random({2, 16, 8});
  Elements target = Random({2, 16, 8}, 2);
  for (size_t i = 0; i < target.values.size(); ++i) {
    if (i / 8 % 16 > 0) target.values[i] = golden.values[i - 8];
  }
  const Explanation found = First(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kShift);
  EXPECT_EQ(found.text, "the indices of dimension 1 are 1 place later");
}

TEST(OrdersTest, FewRowsOfAnAlmostEmptyCacheThatMovedAreAShift) {
  Elements golden = Random({2, 256, 8});
  Elements target = golden;
  for (size_t i = 0; i < golden.values.size(); ++i) {
    const size_t place = i / 8 % 256;
    if (place >= 10) golden.values[i] = 0;
    if (place == 0 || place > 10) target.values[i] = 0;
  }
  for (size_t i = golden.values.size(); i-- > 8;) {
    const size_t place = i / 8 % 256;
    if (place > 0 && place <= 10) target.values[i] = golden.values[i - 8];
  }
  const Explanation found = First(OpOf(golden, target));
  EXPECT_EQ(found.text, "the indices of dimension 1 are 1 place later");
}

TEST(OrdersTest, RepeatedHeadsOfOtherGroupsAreNotAShift) {
  // Two heads, each of which is repeated three times, and twice in the target.
  // A shift would predict five heads, and only one of them differs.
  const Elements heads = Random({3, 32});
  Elements golden = Random({6, 32}, 2);
  Elements target = golden;
  for (size_t i = 0; i < golden.values.size(); ++i) {
    golden.values[i] = heads.values[i / 32 / 3 * 32 + i % 32];
    target.values[i] = heads.values[i / 32 / 2 * 32 + i % 32];
  }
  EXPECT_NE(First(OpOf(golden, target)).kind, Kind::kShift);
}

TEST(OrdersTest, TransposedAxesAreAnArrangement) {
  const Elements golden = Random({8, 16});
  Elements target = golden;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 16; ++j) {
      target.values[j * 8 + i] = golden.values[i * 16 + j];
    }
  }
  EXPECT_EQ(First(OpOf(golden, target)).kind, Kind::kArrangement);
  target.shape = {16, 8};
  EXPECT_EQ(First(OpOf(golden, target)).kind, Kind::kArrangement);
}

// Rotates pairs of halves of 4 heads of 16 elements at 12 positions.
Elements Rotated(const Elements& x, double base, double first) {
  Elements out = x;
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (i % 16 >= 8) continue;
    const double position = double(i / 16 % 12) + first;
    const double angle = position * std::pow(base, -double(i % 8) / 8);
    const auto z = std::complex<double>(x.values[i], x.values[i + 8]) *
                   std::polar(1.0, angle);
    out.values[i] = z.real();
    out.values[i + 8] = z.imag();
  }
  return out;
}

TEST(RotationsTest, BaseAndPositionsAreFound) {
  const Elements x = Random({2, 4, 12, 16});
  const Elements golden = Rotated(x, 1e4, 0);
  EXPECT_EQ(Only(OpOf(golden, Rotated(x, 5e5, 0))).text,
            "rotary embeddings with base 500000 in place of 10000");
  for (const Elements& once : {x, golden}) {
    EXPECT_EQ(Only(OpOf(once, Rotated(once, 1e4, 0))).text,
              "rotary embeddings once more, or of positions * 2");
  }
  const Explanation late = Only(OpOf(golden, Rotated(x, 1e4, 2)));
  EXPECT_EQ(late.kind, Kind::kRopePositions);
  EXPECT_EQ(late.text, "rotary embeddings of positions 2 later");
}

TEST(RotationsTest, OtherPairsNeedTheInput) {
  const Elements x = Random({2, 4, 12, 16});
  const Elements golden = Rotated(x, 1e4, 0);
  Elements target = x;
  for (size_t i = 0; i < x.values.size(); i += 2) {
    const double position = double(i / 16 % 12);
    const double angle = position * std::pow(1e4, -double(i % 16 / 2) / 8);
    const auto z = std::complex<double>(x.values[i], x.values[i + 1]) *
                   std::polar(1.0, angle);
    target.values[i] = z.real();
    target.values[i + 1] = z.imag();
  }
  EXPECT_EQ(First(OpOf(golden, target)).kind, Kind::kUnspecified);
  EXPECT_EQ(Only(OpOf(golden, target, {{"input/0", x}})).text,
            "rotary embeddings of adjacent elements in place of halves");
}

Elements Softmax(const Elements& scores, double scale, size_t more) {
  Elements out = scores;
  const auto width = static_cast<size_t>(scores.shape.back());
  for (size_t begin = 0; begin < scores.values.size(); begin += width) {
    const size_t open = begin / width % width + more;
    double sum = 0;
    for (size_t i = 0; i < width; ++i) {
      double& x = out.values[begin + i];
      x = i <= open ? std::exp(scale * x) : 0;
      sum += x;
    }
    for (size_t i = 0; i < width; ++i) out.values[begin + i] /= sum;
  }
  return out;
}

TEST(ProbabilitiesTest, ScaleAndMaskAreFound) {
  const Elements scores = Random({2, 12, 12});
  const Elements golden = Softmax(scores, 1, 0);
  EXPECT_EQ(Only(OpOf(golden, Softmax(scores, 0.5, 0))).text,
            "softmax of scores * 0.5");
  const Explanation mask = Only(OpOf(golden, Softmax(scores, 1, 1)));
  EXPECT_EQ(mask.kind, Kind::kMask);
  EXPECT_EQ(mask.text,
            "mask of other positions: opens 22 more, 1 in each row that "
            "differs");
}

TEST(ProbabilitiesTest, MaskOfScoresIsFoundBesideItsLargeNumbers) {
  Elements golden = Random({2, 12, 12});
  Elements target = golden;
  for (size_t i = 0; i < golden.values.size(); ++i) {
    const size_t row = i / 12 % 12;
    if (i % 12 > row) golden.values[i] = -3.4e38;
    if (i % 12 > row + 1) target.values[i] = -1e9;
  }
  const Explanation found = Only(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kMask);
  EXPECT_EQ(found.text, "mask of other positions: opens 22 more");
}

Elements Normed(const Elements& x, double eps) {
  Elements out = x;
  const auto width = static_cast<size_t>(x.shape.back());
  for (size_t begin = 0; begin < x.values.size(); begin += width) {
    double squares = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      squares += x.values[i] * x.values[i];
    }
    for (size_t i = begin; i < begin + width; ++i) {
      out.values[i] /= std::sqrt(squares / double(width) + eps);
      out.values[i] *= 1 + 0.1 * double(i - begin);
    }
  }
  return out;
}

TEST(NormsTest, EpsIsFoundFromTheInput) {
  const Elements x = Mapped(Random({16, 32}), [](double v, size_t i) {
    return 0.01 * v * (1 + double(i / 32));
  });
  const Explanation found =
      Only(OpOf(Normed(x, 1e-6), Normed(x, 1e-2), {{"input/0", x}}));
  EXPECT_EQ(found.kind, Kind::kEps);
  ASSERT_EQ(found.parameters.size(), 2U);
  EXPECT_NEAR(found.parameters[1], 1e-2, 1e-3);
}

TEST(NormsTest, FactorOfEachRowIsNoEpsIfGoldenIsNoNorm) {
  const Elements x = Random({16, 32});
  const Elements golden = Mapped(x, [](double v, size_t) { return v * v; });
  // The factors that another eps would make.
  const Elements as_norm = Normed(x, 1e-6);
  const Elements other = Normed(x, 0.5);
  const Elements target = Mapped(golden, [&](double v, size_t i) {
    return v * other.values[i] / as_norm.values[i];
  });
  for (const Explanation& one :
       Explain(OpOf(golden, target, {{"input/0", x}}))) {
    EXPECT_NE(one.kind, Kind::kEps) << one.text;
  }
}

TEST(ValuesTest, RoundingIsFound) {
  const Elements golden = Random({16, 32});
  const Elements target = Mapped(golden, [](double x, size_t) {
    int exponent = 0;
    const double digits = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(digits, 8)), exponent - 8);
  });
  const Explanation found = Only(OpOf(golden, target));
  EXPECT_EQ(found.kind, Kind::kRounded);
  EXPECT_EQ(found.text, "golden rounded to bfloat16");
}

TEST(ValuesTest, LimitAndOverflowAreFound) {
  const Elements golden =
      Mapped(Random({16, 32}), [](double x, size_t) { return 30000 * x; });
  const Elements limited = Mapped(golden, [](double x, size_t) {
    return std::clamp(x, -65504.0, 65504.0);
  });
  const Explanation found = First(OpOf(golden, limited));
  EXPECT_EQ(found.kind, Kind::kSaturated);
  EXPECT_THAT(found.text, HasSubstr("the largest float16"));
  const Elements infinite = Mapped(golden, [](double x, size_t) {
    return std::fabs(x) > 65504
               ? std::copysign(std::numeric_limits<double>::infinity(), x)
               : x;
  });
  EXPECT_THAT(First(OpOf(golden, infinite)).text, HasSubstr("overflow"));
}

TEST(ValuesTest, ZerosAndDropoutAreFound) {
  const Elements golden = Random({32, 32});
  std::mt19937 random(7);
  const Elements dropped = Mapped(golden, [&](double x, size_t) {
    return random() % 4 == 0 ? 0 : x / 0.75;
  });
  EXPECT_EQ(Only(OpOf(golden, dropped)).kind, Kind::kDropout);
  const Elements tile =
      Mapped(golden, [](double x, size_t i) { return i >= 30 * 32 ? 0 : x; });
  const Explanation found = First(OpOf(golden, tile));
  EXPECT_EQ(found.kind, Kind::kZeros);
  EXPECT_EQ(found.text, "zeros in place of 6.25 % of all elements");
}

TEST(ValuesTest, RowsOfZerosAreNoDropout) {
  // A mean over fewer rows, with a few other zeros.
  const Elements golden = Random({16, 64});
  const Elements target = Mapped(golden, [](double x, size_t i) {
    return i < 64 || i == 700 ? 0 : x * 16 / 15;
  });
  for (const Explanation& one : Explain(OpOf(golden, target))) {
    EXPECT_NE(one.kind, Kind::kDropout) << one.text;
  }
}

TEST(ValuesTest, OverflowOfAllElementsIsFound) {
  const Elements golden = Mapped(Random({8, 64}), [](double x, size_t) {
    return 1e5 * (1 + std::fabs(x));
  });
  const Elements infinite = Mapped(golden, [](double, size_t) {
    return std::numeric_limits<double>::infinity();
  });
  EXPECT_THAT(First(OpOf(golden, infinite)).text, HasSubstr("overflow"));
}

TEST(ValuesTest, ZerosAreNoActivation) {
  // GELU is 0 for all of these.
  const Elements golden = Mapped(
      Random({8, 64}), [](double x, size_t) { return x < 0 ? -700 : 0; });
  const Elements zeros = Mapped(golden, [](double, size_t) { return 0; });
  const Explanation found = First(OpOf(golden, zeros, {{"input/0", golden}}));
  EXPECT_EQ(found.kind, Kind::kZeros) << found.text;
}

}  // namespace
}  // namespace msitd::compare::explain
