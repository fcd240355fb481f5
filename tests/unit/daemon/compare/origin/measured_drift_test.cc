// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/measured_drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/daemon/compare/origin/conditioning_test.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

// The inputs of a layer have an error of `input_error`, its outputs one of
// `error`, and `scale` times the norm.
class DriftTest : public ConditioningTest {
 protected:
  v1::ComparisonRow CompareLayer(float input_error, float error,
                                 float scale = 1) {
    RecordNoisy("root", 1, 0, 1, Io::kInput);
    RecordNoisy("root.layer", 2, input_error, 1, Io::kInput);
    RecordNoisy("root.layer", 3, error, scale, Io::kOutput);
    return Compare();
  }

  void RecordNoisy(std::string_view op, uint32_t seed, float error, float scale,
                   Io io) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Floats32 golden;
    Floats32 target;
    for (int i = 0; i < 4096; ++i) {
      golden.push_back(normal(random));
      target.push_back(scale * golden.back() + error * normal(random));
    }
    RecordNarrow(op, golden, target, io);
  }
};

TEST_F(DriftTest, ErrorsOfInputsExplainTheErrorOfAnOutput) {
  const v1::ComparisonRow row = CompareLayer(0.045F, 0.06F);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.explained());
  EXPECT_THAT(row.reason(), HasSubstr("accumulated error 0.059: computed from "
                                      "tensors with errors up to 0.044"));
}

TEST_F(DriftTest, MoreThanTwiceTheErrorOfTheInputsFails) {
  EXPECT_EQ(CompareLayer(0.02F, 0.06F).verdict(), v1::FAIL);
}

TEST_F(DriftTest, MoreThanTwiceTheBoundFails) {
  RecordNoisy("root", 1, 0, 1, Io::kInput);
  RecordNoisy("root.a", 2, 0.045F, 1, Io::kInput);
  RecordNoisy("root.a", 3, 0.08F, 1, Io::kOutput);
  RecordNoisy("root.b", 4, 0.12F, 1, Io::kOutput);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

TEST_F(DriftTest, AWrongScaleIsNoDrift) {
  EXPECT_EQ(CompareLayer(0.045F, 0, 1.06F).verdict(), v1::FAIL);
}

// A change of the norm by up to half of the bound would pass without other
// errors.
TEST_F(DriftTest, ChangesOfTheNormBelowHalfOfTheBoundAreNoEvidence) {
  EXPECT_EQ(CompareLayer(0.045F, 0.05F, 1.02F).verdict(), v1::PASS);
}

TEST_F(DriftTest, LargerChangesOfTheNormAreNoDrift) {
  EXPECT_EQ(CompareLayer(0.045F, 0.05F, 1.035F).verdict(), v1::FAIL);
}

// A norm adds the small channels to much larger ones, which hide their error.
TEST_F(DriftTest, ErrorsThatLargeChannelsHideCount) {
  Floats32 golden;
  Floats32 target;
  Floats32 output;
  Floats32 other;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 4096; ++i) {
    const float noise = 0.045F * normal(random);
    output.push_back(normal(random));
    other.push_back(output.back() + noise + 0.04F * normal(random));
    const bool is_large = i % 64 == 0;
    golden.push_back(is_large ? 1000 : output.back());
    target.push_back(is_large ? 1000 : output.back() + noise);
  }
  RecordNoisy("root", 1, 0, 1, Io::kInput);
  for (const bool is_input : {true, false}) {
    RecordedTensor a = Bfloats("norm", is_input ? golden : output);
    RecordedTensor b = Bfloats("norm", is_input ? target : other);
    a.shape = b.shape = {64, 64};
    Record(a, b, is_input ? Io::kInput : Io::kOutput);
  }
  const v1::ComparisonRow row = Compare();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("accumulated error 0.059: computed "
                                      "from tensors with errors up to 0.044"));
}

// The error that large channels hide is that of the small ones. It must not be
// multiplied by the norm of the large ones.
TEST_F(DriftTest, HiddenErrorsAreNotThoseOfLargeChannels) {
  Floats32 golden;
  Floats32 target;
  Floats32 negative;
  Floats32 sum;
  Floats32 other;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 4096; ++i) {
    const bool is_large = i % 64 == 0;
    const float x = normal(random);
    golden.push_back(is_large ? 1000 : x);
    target.push_back(is_large ? 1000 : x + 0.02F * normal(random));
    negative.push_back(is_large ? -1000 : 0);
    sum.push_back(is_large ? 0 : x);
    other.push_back(is_large ? 0 : x + 0.4F * normal(random));
  }
  RecordNoisy("root", 1, 0, 1, Io::kInput);
  const auto record = [&](const Floats32& a, const Floats32& b, Io io,
                          const char* index) {
    RecordedTensor of_golden = Bfloats("Torch.add", a);
    RecordedTensor of_target = Bfloats("Torch.add", b);
    of_golden.shape = of_target.shape = {64, 64};
    Record(of_golden, of_target, io, index);
  };
  record(golden, target, Io::kInput, "0");
  record(negative, negative, Io::kInput, "1");
  record(sum, other, Io::kOutput, "0");
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

// Gradients after a clip by the norm of all: the last one differs by `factor`,
// and by `noise` in its elements.
class ClipTest : public DriftTest {
 protected:
  v1::ComparisonRow CompareClipped(float factor, float noise) {
    RecordFloats("early", {1, 2, 3, 4}, {1, 2, 3, 4.004F}, Io::kGradWeight);
    const Floats32 gradient = {1, -2, 3, -4, 5, -6, 7, 8};
    RecordFloats("late", gradient, gradient, Io::kGradWeight);
    Floats32 clipped = gradient;
    for (float& x : clipped) x *= factor;
    clipped[2] += noise;
    RecordFloats("late", gradient, clipped, Io::kState, "weight.grad");
    return Compare(
        *Policy::Create(std::vector<PolicyRule>{{"early", "nl2 <= 1"}}));
  }
};

TEST_F(ClipTest, MayChangeTheGradientsOfAllOpsByOneFactor) {
  const v1::ComparisonRow row = CompareClipped(1.0005F, 0);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(),
              HasSubstr("a common factor of 1.0005: gradients that were "
                        "clipped have errors up to 0.0007"));
}

TEST_F(ClipTest, LargerFactorsAreFaults) {
  EXPECT_EQ(CompareClipped(1.002F, 0).verdict(), v1::FAIL);
}

TEST_F(ClipTest, OtherErrorsAreFaults) {
  EXPECT_EQ(CompareClipped(1, 0.005F).verdict(), v1::FAIL);
}

// The gradient of a weight is the product of a gradient and an input, `rows`
// by 64 each. Both have errors of `error`.
class WeightGradientTest : public DriftTest {
 protected:
  v1::ComparisonRow CompareGradient(double error, double fault = 0) {
    constexpr int kRows = 128;
    constexpr int kWidth = 64;
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    // By side: target or not.
    std::vector<double> x[2];
    std::vector<double> g[2];
    for (int i = 0; i < kRows * kWidth; ++i) {
      for (auto* const of : {x, g}) {
        of[0].push_back(normal(random));
        of[1].push_back(of[0].back() + error * normal(random));
      }
    }
    std::vector<RecordedTensor> tensors[2];
    for (const int side : {0, 1}) {
      Floats32 product;
      for (int k = 0; k < kWidth * kWidth; ++k) {
        double sum = side * fault * std::sqrt(kRows) * normal(random);
        for (int i = 0; i < kRows; ++i) {
          sum += g[side][i * kWidth + k / kWidth] *
                 x[side][i * kWidth + k % kWidth];
        }
        product.push_back(static_cast<float>(sum));
      }
      for (const auto& of : {x[side], g[side]}) {
        tensors[side].push_back(
            Bfloats("layer", Floats32(of.begin(), of.end())));
        tensors[side].back().shape = {kRows, kWidth};
      }
      tensors[side].push_back(Bfloats("layer", product));
      tensors[side].back().shape = {kWidth, kWidth};
    }
    RecordNoisy("root", 1, 0, 1, Io::kInput);
    const Io ios[] = {Io::kInput, Io::kGradOutput, Io::kGradWeight};
    for (size_t i = 0; i < 3; ++i) {
      Record(tensors[0][i], tensors[1][i], ios[i]);
    }
    return Compare();
  }
};

TEST_F(WeightGradientTest, MayHaveTheErrorsOfBothFactors) {
  const v1::ComparisonRow row = CompareGradient(0.04);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("accumulated error 0.057"));
}

TEST_F(WeightGradientTest, MoreThanTheseErrorsFails) {
  EXPECT_EQ(CompareGradient(0.03, 0.075).verdict(), v1::FAIL);
}

TEST_F(DriftTest, GradientsWithoutDimensionsHaveNoFactors) {
  RecordNoisy("layer", 1, 0.045F, 1, Io::kInput);
  for (const Io io : {Io::kGradOutput, Io::kGradWeight}) {
    RecordedTensor golden = Bfloats("layer", {1});
    RecordedTensor target =
        Bfloats("layer", {io == Io::kGradOutput ? 1.0F : 2.0F});
    golden.shape = target.shape = {};
    Record(golden, target, io);
  }
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

// A factor of 1 selects the elements with errors, and a factor of 0 the others.
class FactorTest : public DriftTest {
 protected:
  v1::ComparisonRow CompareProduct(std::string_view op) {
    Floats32 golden;
    Floats32 target;
    Floats32 factors;
    Floats32 product;
    Floats32 other;
    for (int i = 0; i < 4096; ++i) {
      const bool is_kept = i % 16 == 0;
      const float noise = i % 32 == 0 ? 0.09375F : -0.09375F;
      golden.push_back(static_cast<float>(i % 5 - 2));
      target.push_back(golden.back() + (is_kept ? noise : 0));
      factors.push_back(is_kept ? 1 : 0.0625F);
      product.push_back(golden.back() * factors.back());
      other.push_back(target.back() * factors.back());
    }
    RecordNarrow("root", golden, golden, Io::kInput);
    RecordNarrow(op, golden, target, Io::kInput);
    Record(Bfloats(std::string(op), factors), Bfloats(std::string(op), factors),
           Io::kInput, "1");
    RecordNarrow(op, product, other, Io::kOutput);
    return Compare();
  }
};

TEST_F(FactorTest, ErrorsOfFactorsCanBeThoseOfTheLargeElements) {
  const v1::ComparisonRow row = CompareProduct("Tensor.__mul__");
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("accumulated error"));
}

TEST_F(FactorTest, OtherOpsHaveNoFactors) {
  EXPECT_EQ(CompareProduct("Tensor.other").verdict(), v1::FAIL);
}

TEST_F(DriftTest, AccumulatedGradientHasTheErrorOfItsGradient) {
  RecordNoisy("op", 1, 0.045F, 1, Io::kGradOutput);
  RecordNoisy("op", 2, 0.06F, 1, Io::kGradWeight);
  RecordNoisy("op", 3, 0.06F, 1, Io::kState);
  const v1::ComparisonRow row = Compare();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(),
              HasSubstr("accumulated error 0.059: computed from "));
}

TEST_F(DriftTest, StateWithoutAGradientFails) {
  RecordNoisy("other", 2, 0.045F, 1, Io::kGradWeight);
  RecordNoisy("op", 2, 0.06F, 1, Io::kState);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

TEST_F(DriftTest, WideTypesHaveNoDrift) {
  Floats32 golden(4096, 1);
  Floats32 target = golden;
  for (size_t i = 0; i < target.size(); ++i) {
    target[i] += i % 2 == 0 ? 9e-5F : -9e-5F;
  }
  RecordFloats("root.layer", golden, target, Io::kInput);
  for (size_t i = 0; i < target.size(); ++i) {
    target[i] += i % 2 == 0 ? 4e-5F : -4e-5F;
  }
  RecordFloats("root.layer", golden, target, Io::kOutput);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
