// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/conditioning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/daemon/compare/origin/conditioning_test.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

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

// The gradient of an input does not depend on the errors of the forward pass if
// the op is linear.
TEST_F(NormTest, ErrorsOfTheForwardPassExplainNoGradientOfAnInput) {
  const Floats32 gradient = {1, -2, 3, -4, 5, -6, 7, 8};
  Floats32 wrong = gradient;
  wrong[1] = 0;
  CompareNorm("root.ln_1", 0.5F, 0.5F);
  RecordNarrow("next", gradient, gradient, Io::kGradOutput);
  RecordNarrow("next", gradient, wrong, Io::kGradInput);
  EXPECT_EQ(Compare().verdict(), v1::FAIL);
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

// A linear layer whose weights were not recorded. Their common part is 24. The
// rows of the input add up to 0, except for up to four rounding errors of
// `noise` in one element. `fault` is another error of the outputs, whose golden
// values are multiples of `size`.
class RowSumTest : public ConditioningTest {
 protected:
  struct Layer {
    int rows = 18;
    float noise = 0x1p-7F;
    float fault = 0;
    float common = 24;
    float size = 1;
    int64_t token = 0;
  };

  v1::ComparisonRow CompareRows(const Layer& layer) {
    Floats32 input;
    Floats32 other_input;
    Floats32 output;
    Floats32 other_output;
    for (int i = 0; i < layer.rows; ++i) {
      const float error = layer.noise * static_cast<float>(i % 9 - 4);
      for (const float x : {1.0F, -1.0F, 2.0F, -2.0F}) {
        input.push_back(x);
        other_input.push_back(x + (x == 1 ? error : 0));
      }
      for (int k = 0; k < 4; ++k) {
        output.push_back(layer.size * static_cast<float>((i + k) % 5 - 2));
        other_output.push_back(output.back() + layer.common * error +
                               (k % 2 == 0 ? layer.fault : -layer.fault));
      }
    }
    const auto shaped = [&](const Floats32& values) {
      RecordedTensor out = Bfloats("root.fc", values);
      out.shape = {layer.rows, 4};
      return out;
    };
    Record(shaped(input), shaped(other_input), Io::kInput, "0", layer.token);
    Record(shaped(output), shaped(other_output), Io::kOutput, "0", layer.token);
    return Compare();
  }

  void RecordWeights() {
    const RecordedTensor weights = Bfloats("root.fc", {24, 24, 24, 24});
    Record(weights, weights, Io::kWeight, "weight");
  }
};

TEST_F(RowSumTest, ErrorsThatFollowFromTheSumsOfRowsAreExplained) {
  const v1::ComparisonRow row = CompareRows({});
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.explained());
  EXPECT_THAT(row.reason(), HasSubstr("ill-conditioned: the rows of the input "
                                      "cancel; its error follows from their "
                                      "sums, except for "));
}

TEST_F(RowSumTest, AFaultOfTheSameSizeIsNot) {
  EXPECT_EQ(CompareRows({.fault = 0.25F}).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, EqualInputsExplainNothing) {
  EXPECT_EQ(CompareRows({.noise = 0, .fault = 0.25F}).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, AFewRowsShowNothing) {
  EXPECT_EQ(CompareRows({.rows = 5}).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, RecordedWeightsHaveAKnownConditionNumber) {
  RecordWeights();
  EXPECT_EQ(CompareRows({}).verdict(), v1::FAIL);
}

TEST_F(RowSumTest, ALaterTokenHasTheWeightsOfTheFirst) {
  CompareRows({});
  const v1::ComparisonRow row = CompareRows({.rows = 3, .token = 1});
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
}

TEST_F(RowSumTest, ALaterTokenMayHaveAFault) {
  CompareRows({});
  EXPECT_EQ(CompareRows({.rows = 3, .fault = 0.25F, .token = 1}).verdict(),
            v1::FAIL);
}

TEST_F(RowSumTest, AFailedRowShowsNoWeights) {
  EXPECT_EQ(CompareRows({.common = 96}).verdict(), v1::FAIL);
  EXPECT_EQ(
      CompareRows({.rows = 3, .common = 96, .size = 8, .token = 1}).verdict(),
      v1::FAIL);
}

// Faults of a layer with 64 inputs and 4 outputs whose errors look as if they
// followed from the sums of the rows of its input.
class RowSumFaultTest : public ConditioningTest {
 protected:
  using Element = std::function<float(int row, int column)>;

  // The golden output in row i and channel k is (i + k) mod 5 - 2.
  v1::ComparisonRow CompareFault(int rows, const Element& input,
                                 const Element& input_error,
                                 const Element& fault, float mask = 0) {
    const auto both = [&](int width, const Element& golden,
                          const Element& error, Io io) {
      Floats32 values;
      Floats32 others;
      for (int i = 0; i < rows; ++i) {
        for (int k = 0; k < width; ++k) {
          values.push_back(golden(i, k));
          others.push_back(values.back() + error(i, k));
        }
      }
      RecordedTensor of_golden = Bfloats("root.fc", values);
      RecordedTensor of_target = Bfloats("root.fc", others);
      of_golden.shape = of_target.shape = {rows, width};
      Record(of_golden, of_target, io);
    };
    const auto is_masked = [&](int k) { return mask != 0 && k == 3; };
    both(kInputs, input, input_error, Io::kInput);
    both(
        4,
        [&](int i, int k) {
          return is_masked(k) ? mask : static_cast<float>((i + k) % 5 - 2);
        },
        [&](int i, int k) { return is_masked(k) ? 0 : fault(i, k); },
        Io::kOutput);
    return Compare();
  }

  // Numbers that add up to 0 in each row.
  static float Cancelling(int /*row*/, int column) {
    constexpr std::array<float, 4> kNumbers = {1, -1, 2, -2};
    return kNumbers[static_cast<size_t>(column % 4)];
  }
  // A number from 0 to `end` - 1 without a pattern.
  static int Random(int row, int column, int end) {
    std::minstd_rand random(static_cast<uint32_t>(row * 1000 + column + 1));
    random.discard(5);
    return static_cast<int>(random() / 64 % static_cast<uint32_t>(end));
  }
  static float Alternating(int column) { return column % 2 == 0 ? 1 : -1; }

  static constexpr int kInputs = 64;
};

TEST_F(RowSumFaultTest, EqualRowsFitAnything) {
  const v1::ComparisonRow row = CompareFault(
      16, Cancelling, [](int, int k) { return k == 0 ? 0x1p-7F : 0; },
      [](int, int k) { return 0.25F * Alternating(k); });
  EXPECT_EQ(row.verdict(), v1::FAIL) << row.reason();
}

TEST_F(RowSumFaultTest, OneRowThatDominatesTheSumsFitsItself) {
  const v1::ComparisonRow row = CompareFault(
      64, Cancelling,
      [](int i, int k) {
        if (i == 0) return k % 4 == 0 ? 0x1p-4F : 0;
        return k == i - 1 ? 0x1p-7F * Alternating(i / 4) : 0;
      },
      [](int i, int k) { return i == 0 ? 2 * Alternating(k) : 0; });
  EXPECT_EQ(row.verdict(), v1::FAIL) << row.reason();
}

// The target truncates positive numbers. Its bias is wrong.
TEST_F(RowSumFaultTest, ABiasIsNoErrorOfBiasedSums) {
  const v1::ComparisonRow row = CompareFault(
      32,
      [](int i, int k) {
        return 1.5F + static_cast<float>(Random(i, k, 8)) / 16;
      },
      [](int i, int k) { return Random(k, i, 2) == 0 ? -0x1p-7F : 0; },
      [](int, int k) { return 0.25F * Alternating(k); });
  EXPECT_EQ(row.verdict(), v1::FAIL) << row.reason();
}

// The zero point of quantized weights is wrong, and an op before this one has
// changed the scale of the inputs.
TEST_F(RowSumFaultTest, AWrongZeroPointIsNoRounding) {
  const auto number = [](int i, int k) {
    constexpr std::array<float, 4> kNumbers = {1, -1, 2, -2};
    return kNumbers[static_cast<size_t>(Random(i, k, 4))];
  };
  const v1::ComparisonRow row = CompareFault(
      32, number, [&](int i, int k) { return number(i, k) * 0x1p-7F; },
      [&](int i, int k) {
        float sum = 0;
        for (int j = 0; j < kInputs; ++j) sum += number(i, j);
        return sum * 0x1p-5F * Alternating(k);
      });
  EXPECT_EQ(row.verdict(), v1::FAIL) << row.reason();
}

TEST_F(RowSumFaultTest, MaskedScoresHideFaults) {
  const v1::ComparisonRow row = CompareFault(
      32, Cancelling,
      [](int i, int k) {
        return k == 0 ? 0x1p-7F * static_cast<float>(i % 9 - 4) : 0;
      },
      [](int i, int) { return 0.25F * Alternating(i); },
      std::bit_cast<float>(0xff7f0000U));
  EXPECT_EQ(row.verdict(), v1::FAIL) << row.reason();
}

// A product with a single row is explained. Something that is computed from it
// has a wrong scale.
TEST_F(ConditioningTest, AScaleIsNoRoundingOfOneRow) {
  constexpr int kChannels = 1024;
  const auto shaped = [](std::string_view op, const Floats32& values,
                         const std::vector<int64_t>& shape) {
    RecordedTensor out = Bfloats(std::string(op), values);
    out.shape = shape;
    return out;
  };
  Floats32 weights;
  Floats32 result;
  Floats32 other_result;
  Floats32 next;
  Floats32 other_next;
  for (int k = 0; k < kChannels; ++k) {
    const float sign = k % 2 == 0 ? 1 : -1;
    weights.insert(weights.end(), 4, 8 * sign);
    result.push_back(k % 4 < 2 ? 0.5F : -0.5F);
    other_result.push_back(result.back() + sign * 0.0625F);
    next.push_back(static_cast<float>(k % 7 - 3));
    other_next.push_back(0.75F * next.back());
  }
  constexpr std::string_view kOp = "Functional.linear";
  Record(shaped(kOp, {1, -1, 2, -2}, {1, 4}),
         shaped(kOp, {1, -1, 2, -2.015625F}, {1, 4}), Io::kInput);
  const RecordedTensor of_weights = shaped(kOp, weights, {kChannels, 4});
  Record(of_weights, of_weights, Io::kInput, "1");
  Record(shaped(kOp, result, {1, kChannels}),
         shaped(kOp, other_result, {1, kChannels}), Io::kOutput);
  EXPECT_EQ(Compare().verdict(), v1::PASS) << Compare().reason();
  Record(shaped("next", next, {1, kChannels}),
         shaped("next", other_next, {1, kChannels}), Io::kInput);
  EXPECT_EQ(Compare().verdict(), v1::FAIL) << Compare().reason();
}

// The bounds of float32 are not close to its rounding errors.
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
