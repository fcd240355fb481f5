// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compute/pair_metrics.h"
#include "msitd/v1/comparison_policy.pb.h"
#include "protos/base/limits.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
std::span<const std::byte> Bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

RowMetrics Measure(const std::vector<float>& target,
                   const std::vector<float>& golden) {
  compute::PairAccumulator pair(DType::kFloat32, DType::kFloat32);
  pair.Update(Bytes(target), Bytes(golden));
  return ToRowMetrics(pair.Finish(),
                      compute::Summarize(Bytes(golden), DType::kFloat32));
}

bool PassesByDefault(const std::vector<float>& target,
                     const std::vector<float>& golden,
                     DType target_dtype = DType::kFloat32,
                     DType golden_dtype = DType::kFloat32) {
  return DefaultPredicate(target_dtype, golden_dtype)
      .Holds(Measure(target, golden));
}

std::vector<float> Gaussian(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

// Changes every element by a random fraction of itself.
std::vector<float> WithRelativeNoise(std::vector<float> values, float share) {
  std::mt19937 random(99);
  std::normal_distribution<float> normal;
  for (float& value : values) value += value * share * normal(random);
  return values;
}

TEST(PolicyTest, FirstRuleThatMatchesDecides) {
  const std::vector<PolicyRule> rules = {
      {"*.attn", "cosine > 0.5"},
      {"layers.0.*", "nl2 < 1"},
      {"*.attn", "nl2 < 2"},
  };
  const auto policy = Policy::Create(rules);
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto text = [&policy](std::string_view op) {
    TensorKey key;
    key.op = op;
    return policy->VerificationFor(key, DType::kInt8, DType::kInt8)
        .predicate->text();
  };
  EXPECT_EQ(text("layers.0.attn"), "cosine > 0.5");
  EXPECT_EQ(text("layers.0.mlp"), "nl2 < 1");
  EXPECT_EQ(text("layers.1.mlp"), "mismatch_count == 0");
}

TEST(PolicyTest, ErrorsNameTheRule) {
  const auto error_of = [](std::vector<PolicyRule> rules) {
    const auto policy = Policy::Create(rules);
    EXPECT_FALSE(policy.ok());
    return policy.status();
  };
  absl::Status status = error_of({{"*", "nl2 < 1"}, {"a*", "bogus < 1"}});
  EXPECT_EQ(Reason(status), "PREDICATE_INVALID");
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("policy.rules[1]: predicate, column 1: unknown name"));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("scaled_max_abs"));
  EXPECT_EQ(Reason(error_of({{"*", ""}})), "PREDICATE_INVALID");

  status = error_of({{"", "nl2 < 1"}});
  EXPECT_EQ(Reason(status), "FIELD_INVALID");
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("policy.rules[0].op_pattern"));
  status = error_of({{std::string(kOpBytesMax + 1, 'x'), "nl2 < 1"}});
  EXPECT_EQ(Reason(status), "FIELD_INVALID");
  status =
      error_of(std::vector<PolicyRule>(kPolicyRulesMax + 1, {"*", "nl2 < 1"}));
  EXPECT_EQ(Reason(status), "FIELD_INVALID");
}

TEST(PolicyTest, DefaultIsThatOfTheLooserType) {
  const auto text = [](DType target, DType golden) {
    return DefaultPredicate(target, golden).text();
  };
  EXPECT_EQ(text(DType::kBfloat16, DType::kFloat32),
            text(DType::kBfloat16, DType::kBfloat16));
  EXPECT_EQ(text(DType::kFloat32, DType::kBfloat16),
            text(DType::kBfloat16, DType::kBfloat16));
  EXPECT_EQ(text(DType::kInt32, DType::kFloat32),
            text(DType::kFloat32, DType::kFloat32));
  EXPECT_EQ(text(DType::kComplex64, DType::kComplex128),
            text(DType::kFloat32, DType::kFloat32));
  EXPECT_EQ(text(DType::kBool, DType::kInt64), "mismatch_count == 0");
  EXPECT_THAT(text(DType::kFloat8E5m2, DType::kFloat8E4m3fn),
              HasSubstr("nl2 <= 2.5e-1"));
}

TEST(PolicyTest, Float32PassesReorderingNoiseAndFailsAChangedWeight) {
  const std::vector<float> golden = Gaussian(4096, 1);
  EXPECT_TRUE(PassesByDefault(golden, golden));
  EXPECT_TRUE(PassesByDefault(WithRelativeNoise(golden, 1e-5f), golden));
  EXPECT_FALSE(PassesByDefault(WithRelativeNoise(golden, 1e-3f), golden));
  // One changed weight of a linear layer changes one feature of each token,
  // here by one hundredth of its magnitude.
  std::vector<float> target = golden;
  for (size_t i = 5; i < target.size(); i += 64) target[i] *= 1.01f;
  EXPECT_FALSE(PassesByDefault(target, golden));
}

TEST(PolicyTest, SparseCorruptionOfALargeTensorFailsWhateverTheType) {
  const std::vector<float> golden = Gaussian(1 << 20, 2);
  std::vector<float> target = golden;
  target[777] += 8;
  const RowMetrics metrics = Measure(target, golden);
  EXPECT_GT(metrics[static_cast<int>(compute::Metric::kCosine)], 0.9999);
  for (const DType dtype :
       {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBfloat16,
        DType::kFloat8E4m3fn, DType::kFloat8E5m2}) {
    const predicate::Predicate& predicate = DefaultPredicate(dtype, dtype);
    EXPECT_FALSE(predicate.Holds(metrics)) << DTypeName(dtype);
  }
}

TEST(PolicyTest, HalfTypesPassTheirOwnRoundingAndFailTenTimesThat) {
  const std::vector<float> golden = Gaussian(4096, 3);
  const std::pair<DType, float> cases[] = {{DType::kFloat16, 2e-3f},
                                           {DType::kBfloat16, 2e-2f},
                                           {DType::kFloat8E4m3fn, 6e-2f}};
  for (const auto& [dtype, noise] : cases) {
    EXPECT_TRUE(PassesByDefault(WithRelativeNoise(golden, noise), golden, dtype,
                                DType::kFloat32))
        << DTypeName(dtype);
    EXPECT_FALSE(PassesByDefault(WithRelativeNoise(golden, 10 * noise), golden,
                                 dtype, DType::kFloat32))
        << DTypeName(dtype);
  }
}

// Returns hidden states in which one channel is 1,000 times larger than the
// others.
std::vector<float> WithMassiveChannel(size_t rows, size_t channels) {
  std::vector<float> out = Gaussian(rows * channels, 5);
  for (size_t i = 17; i < out.size(); i += channels) out[i] = 5000;
  return out;
}

bool RowsPassByDefault(const std::vector<float>& target,
                       const std::vector<float>& golden, size_t channels,
                       DType dtype) {
  compute::PairAccumulator pair(DType::kFloat32, DType::kFloat32,
                                {golden.size() / channels, channels});
  pair.Update(Bytes(target), Bytes(golden));
  return DefaultPredicate(dtype, dtype)
      .Holds(ToRowMetrics(pair.Finish(),
                          compute::Summarize(Bytes(golden), DType::kFloat32)));
}

TEST(PolicyTest, LargeChannelsDoNotHideTheOthers) {
  constexpr size_t kChannels = 1024;
  const std::vector<float> golden = WithMassiveChannel(32, kChannels);
  std::vector<float> zeroed(golden.size());
  for (size_t i = 17; i < golden.size(); i += kChannels) zeroed[i] = golden[i];
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    EXPECT_FALSE(RowsPassByDefault(zeroed, golden, kChannels, dtype))
        << DTypeName(dtype);
  }
  // Rows are compared next to a row that is much larger.
  std::vector<float> rows = Gaussian(64 * 64, 6);
  for (size_t i = 0; i < 64; ++i) rows[i] *= 1000;
  std::vector<float> other = rows;
  for (size_t i = 64; i < rows.size(); ++i) other[i] = 0;
  EXPECT_FALSE(RowsPassByDefault(other, rows, 64, DType::kBfloat16));
}

TEST(PolicyTest, RoundingBesideLargeChannelsPasses) {
  const std::vector<float> golden = WithMassiveChannel(32, 1024);
  EXPECT_TRUE(RowsPassByDefault(WithRelativeNoise(golden, 2e-2f), golden, 1024,
                                DType::kBfloat16));
  // A few channels that are mostly noise do not fail.
  std::vector<float> noisy = golden;
  for (size_t i = 3; i < golden.size(); i += 1024) noisy[i] *= 1.5F;
  EXPECT_TRUE(RowsPassByDefault(noisy, golden, 1024, DType::kBfloat16));
}

TEST(PolicyTest, NanAndInfinityOnOneSideFail) {
  const std::vector<float> golden = {1, 2, 3, 4};
  EXPECT_FALSE(PassesByDefault({1, kNan, 3, 4}, golden));
  EXPECT_FALSE(PassesByDefault({1, kInf, 3, 4}, golden));
  EXPECT_FALSE(PassesByDefault(golden, {1, kNan, 3, 4}));
  EXPECT_FALSE(PassesByDefault({1, -kInf, 3, 4}, {1, kInf, 3, 4}));
}

TEST(PolicyTest, EqualValuesPassEvenWhereRelativeMetricsAreUndefined) {
  EXPECT_TRUE(PassesByDefault({0, 0, 0}, {0, -0.0f, 0}));
  EXPECT_TRUE(PassesByDefault({kNan, kNan}, {kNan, kNan}));
  EXPECT_TRUE(PassesByDefault({-kInf, 0}, {-kInf, 0}));
  EXPECT_FALSE(PassesByDefault({0, 1e-9f, 0}, {0, 0, 0}));
}

TEST(RowMetricsTest, ScaledMaxAbsDividesByTheLargestFiniteGoldenValue) {
  const auto scaled = [](const std::vector<float>& target,
                         const std::vector<float>& golden) {
    return Measure(target, golden)[kScaledMaxAbs].value();
  };
  EXPECT_DOUBLE_EQ(scaled({1, -8, 2}, {1, -8, 4}), 2.0 / 8);
  EXPECT_EQ(scaled({1, 2}, {1, 2}), 0);
  EXPECT_EQ(scaled({0, 0}, {0, 0}), 0);
  EXPECT_EQ(scaled({0, 1}, {0, 0}), kInf);
  // With infinities, the divisor may be too small, but never too large.
  EXPECT_GE(scaled({1, -kInf, 2}, {1, -kInf, 4}), 2.0 / 4);
}

TEST(RowMetricsTest, NamesAreThoseOfThePairThenDerivedThenElementOnes) {
  const auto names = MetricNames();
  ASSERT_EQ(names.size(), static_cast<size_t>(kRowMetricCount));
  EXPECT_EQ(names.front(), "cosine");
  EXPECT_EQ(names[kScaledMaxAbs], "scaled_max_abs");
  EXPECT_EQ(names[kPsnrDb], "psnr_db");
  EXPECT_EQ(names[kFirstElementMetric], "outlier_count");
  EXPECT_EQ(SetOf(kPsnrDb), 0u);
  EXPECT_EQ(SetOf(kFirstElementMetric), uint32_t{compute::kToleranceSet});
}

TEST(RowMetricsTest, PsnrTakesTheRangeOfTheGoldenTensorAsPeak) {
  // The range is 4, and the rmse is 2.
  EXPECT_NEAR(*Measure({1, 5}, {-1, 3})[kPsnrDb], 20 * std::log10(4 / 2.0),
              1e-9);
  EXPECT_EQ(Measure({1, 5}, {1, 5})[kPsnrDb], kInf);
  EXPECT_EQ(Measure({1, 1}, {2, 2})[kPsnrDb], -kInf);
  EXPECT_FALSE(Measure({1, kInf}, {2, kInf})[kPsnrDb]);
}

Verification VerificationOf(const PolicySpec& spec, std::string_view op,
                            DType target = DType::kFloat32,
                            DType golden = DType::kFloat32) {
  // Predicates refer to their policy, so the policies are kept.
  static std::vector<std::unique_ptr<Policy>> policies;
  auto policy = Policy::Create(spec);
  EXPECT_TRUE(policy.ok()) << policy.status();
  policies.push_back(std::make_unique<Policy>(*std::move(policy)));
  TensorKey key;
  key.op = op;
  return policies.back()->VerificationFor(key, target, golden);
}

TEST(PolicyTest, RulesMayNameTensorsOfAnOp) {
  const std::vector<PolicyRule> rules = {
      {"*.attn@input/mask", "nl2 < 1"},
      {"*.attn@output", "nl2 < 2"},
      {"a@b", "nl2 < 3"},
  };
  const auto policy = Policy::Create(rules);
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto rule_of = [&policy](std::string op, Io io, std::string index) {
    TensorKey key;
    key.op = std::move(op);
    key.io = io;
    key.index = std::move(index);
    return policy->VerificationFor(key, DType::kFloat32, DType::kFloat32).rule;
  };
  EXPECT_EQ(rule_of("layers.0.attn", Io::kInput, "mask"), 0);
  EXPECT_EQ(rule_of("layers.0.attn", Io::kInput, "0"), -1);
  EXPECT_EQ(rule_of("layers.0.attn", Io::kOutput, "1"), 1);
  EXPECT_EQ(rule_of("a@b", Io::kOutput, "0"), 2);
  EXPECT_TRUE(policy->MatchesOp(0, "layers.0.attn"));
  EXPECT_FALSE(
      Policy::Create(std::vector<PolicyRule>{{"@input", "nl2 < 1"}}).ok());
}

TEST(PolicyTest, RegularExpressionsMatchAllOfAnOp) {
  PolicySpec spec;
  spec.rules = {{"layer\\.[0-3]", "nl2 < 1", true}};
  EXPECT_EQ(VerificationOf(spec, "layer.2").rule, 0);
  EXPECT_EQ(VerificationOf(spec, "layer.22").rule, -1);
}

TEST(PolicyTest, ARuleMayHaveItsOwnPresetOrTolerance) {
  PolicySpec spec;
  spec.rules = {{.op_pattern = "a", .preset = Preset::kTorch},
                {.op_pattern = "b", .rtol = 0.5},
                {"c", "cosine > 0 and outlier_count < 3", false,
                 Preset::kDefault, 0.1, 0.2}};
  const Verification a = VerificationOf(spec, "a");
  EXPECT_EQ(a.request.rtol, 1.3e-6);
  EXPECT_EQ(a.request.atol, 1e-5);
  EXPECT_EQ(a.predicate->text(), "outlier_count == 0");
  EXPECT_EQ(VerificationOf(spec, "b").request.rtol, 0.5);
  EXPECT_EQ(VerificationOf(spec, "b").request.atol, 0);
  EXPECT_EQ(VerificationOf(spec, "c").request.atol, 0.2);
}

TEST(PolicyTest, TorchTakesTheLooserOfTwoTypes) {
  PolicySpec spec;
  spec.preset = Preset::kTorch;
  const auto request = [&](DType t, DType g) {
    return VerificationOf(spec, "x", t, g).request;
  };
  EXPECT_EQ(request(DType::kBfloat16, DType::kFloat32).rtol, 1.6e-2);
  EXPECT_EQ(request(DType::kFloat64, DType::kFloat64).atol, 1e-7);
  EXPECT_EQ(request(DType::kInt64, DType::kInt64).rtol, 0);
  EXPECT_EQ(request(DType::kFloat8E5m2, DType::kBfloat16).rtol, 0.25);
}

TEST(PolicyTest, APredicateAsksForTheSetsThatItNames) {
  PolicySpec spec;
  spec.rules = {{"a", "max_ulp <= 4 or pearson > 0.9"}, {"b", "nl2 < 1"}};
  spec.metric_sets = compute::kTopKSet;
  EXPECT_EQ(VerificationOf(spec, "a").request.sets,
            compute::kUlpSet | compute::kPearsonSet | compute::kTopKSet);
  EXPECT_EQ(VerificationOf(spec, "b").request.sets,
            uint32_t{compute::kTopKSet});
}

TEST(PolicyTest, EveryPresetHasAPredicateForEveryPairOfTypes) {
  for (int preset = 0; preset < v1::Policy::Preset_ARRAYSIZE; ++preset) {
    for (int t = 1; t < kDTypeCount; ++t) {
      for (int g = 1; g < kDTypeCount; ++g) {
        for (const PairForm form :
             {PairForm::kTensors, PairForm::kSingle, PairForm::kValues}) {
          const PresetTolerance tolerance =
              ToleranceOf(static_cast<Preset>(preset), static_cast<DType>(t),
                          static_cast<DType>(g), Basis(), form);
          ASSERT_NE(tolerance.predicate, nullptr);
          EXPECT_EQ(SetsOf(*tolerance.predicate) & ~tolerance.sets, 0u);
        }
      }
    }
  }
}

// A tolerance of 1 must not pass a 2 as a 3.
TEST(PolicyTest, HashesDecideWhereMsprobeRequiresEqualElements) {
  PolicySpec spec;
  spec.preset = Preset::kMsprobe;
  const auto policy = Policy::Create(spec);
  ASSERT_TRUE(policy.ok());
  const auto decides = [&](DType type, PairForm form) {
    return policy->VerificationFor(TensorKey(), type, type, Basis(), form)
        .hash_decides;
  };
  EXPECT_TRUE(decides(DType::kInt64, PairForm::kTensors));
  EXPECT_TRUE(decides(DType::kBool, PairForm::kSingle));
  EXPECT_FALSE(decides(DType::kInt64, PairForm::kValues));
  EXPECT_FALSE(decides(DType::kFloat32, PairForm::kTensors));
}

TEST(PolicyTest, MsprobeRequiresEqualIntegersAndValues) {
  const auto text = [](DType type, PairForm form) {
    return ToleranceOf(Preset::kMsprobe, type, type, Basis(), form)
        .predicate->text();
  };
  constexpr char kExact[] = "mismatch_count == 0";
  for (const PairForm form :
       {PairForm::kTensors, PairForm::kSingle, PairForm::kValues}) {
    EXPECT_EQ(text(DType::kInt64, form), kExact);
    EXPECT_EQ(text(DType::kBool, form), kExact);
  }
  EXPECT_EQ(text(DType::kFloat64, PairForm::kValues), kExact);
  EXPECT_THAT(text(DType::kFloat32, PairForm::kSingle),
              Not(HasSubstr("cosine")));
  EXPECT_THAT(text(DType::kFloat32, PairForm::kTensors), HasSubstr("cosine"));
}

TEST(PolicyTest, WhatIsWrongIsNamedByItsPlace) {
  const auto error = [](const PolicyRule& rule) {
    PolicySpec spec;
    spec.rules = {{"x", "nl2 < 1"}, rule};
    return std::string(Message(Policy::Create(spec).status()));
  };
  EXPECT_THAT(error({"a(", "nl2 < 1", true}), HasSubstr("rules[1].op_regex: "));
  EXPECT_THAT(error({.op_pattern = "a", .rtol = -1}),
              HasSubstr("rules[1].rtol: -1"));
  EXPECT_THAT(error({"a", "outlier_count == 0"}),
              HasSubstr("rules[1].predicate: outlier_count"));
  EXPECT_THAT(error({"a", "nl2 < 1", false, Preset::kTorch}),
              HasSubstr("rules[1].preset: "));
  EXPECT_THAT(error({.op_pattern = "a"}), HasSubstr("column 1"));
  PolicySpec spec;
  spec.top_k = 65;
  EXPECT_THAT(std::string(Message(Policy::Create(spec).status())),
              HasSubstr("policy.top_k: 65"));
}

}  // namespace
}  // namespace msitd::compare
