// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/conditioning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

using Floats32 = std::vector<float>;

class ConditioningTest : public ::testing::Test {
 protected:
  void Record(RecordedTensor golden, RecordedTensor target, Io io,
              std::string_view index = "0", int64_t token = 0) {
    for (RecordedTensor* const tensor : {&golden, &target}) {
      tensor->io = io;
      tensor->index = std::string(index);
      tensor->token = token;
    }
    golden_.Record(golden);
    target_.Record(target);
  }

  void RecordFloats(std::string_view op, const Floats32& golden,
                    const Floats32& target, Io io, std::string_view index = "0",
                    int64_t token = 0) {
    Record(Floats(op, golden), Floats(op, target), io, index, token);
  }

  void RecordNarrow(std::string_view op, const Floats32& golden,
                    const Floats32& target, Io io) {
    Record(Bfloats(op, golden), Bfloats(op, target), io);
  }

  // The last row.
  v1::ComparisonRow Compare(Policy policy = {}) {
    const ComparisonPlan plan{"g", "t", {}, std::move(policy)};
    RowObserver observer;
    EXPECT_TRUE(ComparisonEngine(store_, plan, observer).Run().ok());
    return observer.rows.back();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
};

// A norm of 8 numbers around 100. The last number of the target differs by
// `error`, such as one rounding.
class NormTest : public ConditioningTest {
 protected:
  v1::ComparisonRow CompareNorm(std::string_view op, float error,
                                float output_error, float mean = 100) {
    const Floats32 around = {1.5F, -1, 0.5F, -2, 2, -0.5F, 1, -1.5F};
    Floats32 input;
    Floats32 output;
    for (const float x : around) {
      input.push_back(mean + x);
      output.push_back(x);
    }
    Floats32 other_input = input;
    other_input.back() += error;
    Floats32 other_output = output;
    other_output.back() += output_error;
    RecordNarrow(op, input, other_input, Io::kInput);
    RecordNarrow(op, output, other_output, Io::kOutput);
    RecordNarrow("next", output, other_output, Io::kInput);
    return Compare();
  }
};

TEST_F(NormTest, RoundingOfAnInputCountsRelativeToItsSpread) {
  const v1::ComparisonRow row = CompareNorm("root.ln_1", 0.5F, 0.5F);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
}

TEST_F(NormTest, ReasonsSayWhatIsExplained) {
  EXPECT_THAT(CompareNorm("layer_norm", 0.5F, 0.5F).reason(),
              HasSubstr("error 0.13: computed from layer_norm@output/0, which "
                        "is ill-conditioned"));
}

TEST_F(NormTest, EqualInputsExplainNothing) {
  EXPECT_EQ(CompareNorm("root.ln_1", 0, 0.5F).verdict(), v1::FAIL);
}

TEST_F(NormTest, OtherOpsTakeNoMeanOff) {
  EXPECT_EQ(CompareNorm("root.linear", 0.5F, 0.5F).verdict(), v1::FAIL);
}

TEST_F(NormTest, WithoutALargeMeanNothingIsLost) {
  EXPECT_EQ(CompareNorm("root.ln_1", 0.0078125F, 0.5F, 1).verdict(), v1::FAIL);
}

TEST_F(NormTest, MoreThanARoundingExplainsNoMoreThanOne) {
  // The norm has half of its output wrong.
  EXPECT_EQ(CompareNorm("root.ln_1", 4, 2.5F).verdict(), v1::FAIL);
}

TEST_F(NormTest, RulesOfTheUserExcuseNothing) {
  PolicySpec spec;
  spec.rules = {{"*", "nl2 <= 5e-2"}};
  CompareNorm("root.ln_1", 0.5F, 0.5F);
  EXPECT_EQ(Compare(*Policy::Create(spec)).verdict(), v1::FAIL);
}

class AngleTest : public ConditioningTest {
 protected:
  void RecordRotary(int64_t position, float error, float norm = 1) {
    RecordedTensor positions;
    positions.op = "rotary_emb";
    positions.dtype = DType::kInt64;
    positions.shape = {3};
    positions.bytes =
        BytesOf(std::vector<int64_t>{position, position + 1, position + 2});
    Record(positions, positions, Io::kInput);
    Floats32 cosines;
    Floats32 sines;
    Floats32 other;
    for (int i = 0; i < 3; ++i) {
      const float angle =
          static_cast<float>(position % 1000) * 0.5F + static_cast<float>(i);
      cosines.push_back(norm * std::cos(angle));
      sines.push_back(norm * std::sin(angle));
      other.push_back(norm * std::cos(angle + error));
    }
    RecordFloats("rotary_emb", cosines, other, Io::kOutput, "0");
    RecordFloats("rotary_emb", sines, sines, Io::kOutput, "1");
    RecordFloats("attention", cosines, other, Io::kInput);
    RecordFloats("attention", {1, 2}, {1 + error, 2 + error}, Io::kOutput);
  }
};

TEST_F(AngleTest, ErrorsAreRelativeToTheAngle) {
  RecordRotary(100000, 1e-3F);
  const v1::ComparisonRow row = Compare();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("computed from rotary_emb@output/0"));
}

TEST_F(AngleTest, MoreThanThatFails) {
  RecordRotary(100000, 3e-2F);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

TEST_F(AngleTest, NearPositionsLoseNothing) {
  RecordRotary(1000, 1e-3F);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

TEST_F(AngleTest, OtherOpsOfIntegersHaveNoAngles) {
  RecordRotary(100000, 1e-3F, 0.5F);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

TEST_F(AngleTest, OnePositionIsEnough) {
  RecordedTensor position;
  position.op = "rotary_emb";
  position.dtype = DType::kInt64;
  position.shape = {1};
  position.bytes = BytesOf(std::vector<int64_t>{100000});
  Record(position, position, Io::kInput);
  RecordFloats("rotary_emb", {0.6F}, {0.6002F}, Io::kOutput, "0");
  RecordFloats("rotary_emb", {0.8F}, {0.8F}, Io::kOutput, "1");
  RecordFloats("attention", {0.6F}, {0.6002F}, Io::kInput);
  EXPECT_EQ(Compare().verdict(), v1::PASS);
}

class ProductTest : public ConditioningTest {
 protected:
  v1::ComparisonRow CompareProduct(std::string_view op, float weight) {
    const auto narrow = [&](const Floats32& values,
                            const std::vector<int64_t>& shape) {
      RecordedTensor out = Bfloats(op, values);
      out.shape = shape;
      return out;
    };
    Record(narrow({1, -1, 2, -2}, {1, 4}),
           narrow({1, -1, 2, -2.015625F}, {1, 4}), Io::kInput);
    const RecordedTensor weights = narrow(Floats32(12, weight), {3, 4});
    Record(weights, weights, Io::kInput, "1");
    Record(narrow({0.5F, 0.5F, 0.5F}, {1, 3}),
           narrow({0.5F, 0.5F, 0.625F}, {1, 3}), Io::kOutput);
    return Compare();
  }
};

TEST_F(ProductTest, RoundingCountsRelativeToWhatIsSummed) {
  const v1::ComparisonRow row = CompareProduct("Functional.linear", 8);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("ill-conditioned: its sums cancel to"));
}

TEST_F(ProductTest, SumsThatDoNotCancelExplainNothing) {
  EXPECT_EQ(CompareProduct("Functional.linear", 0.25F).verdict(), v1::FAIL);
}

TEST_F(ProductTest, OtherOpsAreNoProducts) {
  EXPECT_EQ(CompareProduct("Functional.other", 8).verdict(), v1::FAIL);
}

// A module keeps what it has computed: `attn` has the keys of token 0.
class CacheTest : public AngleTest {
 protected:
  v1::ComparisonRow CompareLater(const std::string& module) {
    const Floats32 rounded = {1.0003F, 2};
    RecordFloats("attn", {3, 4}, {3, 4}, Io::kInput);
    RecordRotary(100000, 1e-3F);
    RecordFloats("attn.out", {1, 2}, rounded, Io::kInput);
    RecordFloats("attn.out", {1, 2}, rounded, Io::kOutput);
    RecordFloats("attn", {1, 2}, rounded, Io::kOutput);
    RecordFloats(module, {5, 6}, {5, 6}, Io::kInput, "0", 1);
    RecordFloats(module + ".out", {1, 2}, {1.0004F, 2}, Io::kInput, "0", 1);
    return Compare();
  }
};

TEST_F(CacheTest, AModuleMayReadWhatItComputedAtEarlierTokens) {
  const v1::ComparisonRow row = CompareLater("attn");
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_THAT(row.reason(), HasSubstr("computed from an earlier token"));
}

TEST_F(CacheTest, OtherModulesMayNot) {
  EXPECT_EQ(CompareLater("mlp").verdict(), v1::FAIL);
}

TEST_F(ConditioningTest, StepsOfATrainingMoveSingleElements) {
  Floats32 golden(1000, 1);
  Floats32 target = golden;
  target.back() += 5e-4F;
  for (const int64_t token : {0, 1}) {
    RecordFloats("op", golden, target, Io::kOutput, "0", token);
    RecordFloats("op", {1, 2}, {1, 2.00001F}, Io::kGradWeight, "weight", token);
  }
  const ComparisonPlan plan{"g", "t", {}, {}};
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_, plan, observer).Run().ok());
  ASSERT_EQ(observer.rows.size(), 4u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::FAIL);
  EXPECT_EQ(observer.rows[2].verdict(), v1::PASS) << observer.rows[2].reason();
  EXPECT_THAT(observer.rows[2].reason(), HasSubstr("single elements differ"));
}

// Half of 1024 numbers around 100 have another rounding; `scale` and `noise`
// are those of the target's output.
class ManyNumbersTest : public ConditioningTest {
 protected:
  v1::Verdict Compare1024(float scale, float noise) {
    Floats32 input;
    Floats32 other_input;
    Floats32 output;
    Floats32 other_output;
    for (int i = 0; i < 1024; ++i) {
      const float x = static_cast<float>(i % 5 - 2);
      const float sign = i % 2 == 0 ? 1.0F : -1.0F;
      input.push_back(100 + x);
      other_input.push_back(100 + x + (i % 4 < 2 ? 0.5F * sign : 0));
      output.push_back(x);
      other_output.push_back(scale * x + noise * sign);
    }
    RecordNarrow("ln_1", input, other_input, Io::kInput);
    RecordNarrow("ln_1", output, other_output, Io::kOutput);
    return Compare().verdict();
  }
};

TEST_F(ManyNumbersTest, NoiseIsRounding) {
  EXPECT_EQ(Compare1024(1, 0.25F), v1::PASS);
}

TEST_F(ManyNumbersTest, AWrongScaleIsNone) {
  EXPECT_EQ(Compare1024(1.25F, 0), v1::FAIL);
}

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

// A linear layer whose weights were not recorded. Their common part is 64. The
// rows of the input add up to 0, except for a rounding error of at most `noise`
// in one element. `fault` is another error of the outputs.
class RowSumTest : public ConditioningTest {
 protected:
  v1::ComparisonRow CompareRows(int rows, float noise, float fault,
                                int64_t token = 0) {
    Floats32 input;
    Floats32 other_input;
    Floats32 output;
    Floats32 other_output;
    for (int i = 0; i < rows; ++i) {
      const float error = noise * static_cast<float>(i % 3 - 1);
      for (const float x : {1.0F, -1.0F, 2.0F, -2.0F}) {
        input.push_back(x);
        other_input.push_back(x + (x == 1 ? error : 0));
      }
      for (int k = 0; k < 4; ++k) {
        output.push_back(static_cast<float>((i + k) % 5 - 2));
        other_output.push_back(output.back() + 64 * error +
                               (k % 2 == 0 ? fault : -fault));
      }
    }
    const auto shaped = [&](const Floats32& values) {
      RecordedTensor out = Bfloats("root.fc", values);
      out.shape = {rows, 4};
      return out;
    };
    Record(shaped(input), shaped(other_input), Io::kInput, "0", token);
    Record(shaped(output), shaped(other_output), Io::kOutput, "0", token);
    return Compare();
  }
};

TEST_F(RowSumTest, ErrorsThatFollowFromTheSumsOfRowsAreExplained) {
  const v1::ComparisonRow row = CompareRows(16, 0x1p-7F, 0);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.explained());
  EXPECT_THAT(row.reason(), HasSubstr("ill-conditioned: the rows of the input "
                                      "cancel; its error follows from their "
                                      "sums, except for "));
}

TEST_F(RowSumTest, AFaultOfTheSameSizeIsNot) {
  EXPECT_EQ(CompareRows(16, 0x1p-7F, 0.25F).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, EqualInputsExplainNothing) {
  EXPECT_EQ(CompareRows(16, 0, 0.25F).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, AFewRowsShowNothing) {
  EXPECT_EQ(CompareRows(6, 0x1p-7F, 0).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, ALaterTokenHasTheWeightsOfTheFirst) {
  CompareRows(16, 0x1p-7F, 0);
  const v1::ComparisonRow row = CompareRows(3, 0x1p-7F, 0, 1);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
}

TEST_F(RowSumTest, ALaterTokenMayHaveAFault) {
  CompareRows(16, 0x1p-7F, 0);
  EXPECT_EQ(CompareRows(3, 0x1p-7F, 0.25F, 1).verdict(), v1::FAIL);
}

// The bounds of float32 are not close to its rounding errors.
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

TEST_F(ConditioningTest, AGradientThatOneRunLacksIsNoStep) {
  Floats32 golden(1000, 1);
  Floats32 target = golden;
  target.back() += 5e-4F;
  RecordedTensor gradient = Floats("op", {1, 2});
  gradient.io = Io::kGradWeight;
  gradient.index = "weight";
  golden_.Record(gradient);
  RecordFloats("op", golden, target, Io::kOutput, "0", 1);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
