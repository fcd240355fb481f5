// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/statistics_judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protos/base/tensor_statistics.h"
#include "protos/compute/digest.h"

namespace msitd::compare {
namespace {

LogicalTensor Statistics(std::string text, DType dtype = DType::kFloat32) {
  LogicalTensor out;
  out.key.op = "op";
  out.kind = RecordKind::kStatistics;
  out.dtype = dtype;
  out.shape = {4};
  out.value = std::move(text);
  return out;
}

LogicalTensor Tensor(const std::vector<float>& values) {
  LogicalTensor out;
  out.key.op = "op";
  out.dtype = DType::kFloat32;
  out.shape = {static_cast<int64_t>(values.size())};
  out.summary =
      compute::Summarize(std::as_bytes(std::span(values)), DType::kFloat32);
  return out;
}

StatisticsOutcome Of(const std::string& target, const std::string& golden,
                     DType dtype = DType::kFloat32) {
  return JudgeStatistics(Statistics(target, dtype), Statistics(golden, dtype),
                         Policy());
}

StatisticsOutcome Under(const char* predicate, const std::string& target,
                        const std::string& golden) {
  const PolicyRule rule = {.op_pattern = "*", .predicate = predicate};
  const auto policy = Policy::Create(std::span(&rule, 1));
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok()
             ? JudgeStatistics(Statistics(target), Statistics(golden), *policy)
             : StatisticsOutcome();
}

TEST(StatisticsJudgeTest, EqualOnesPassAndSayWhatWasCompared) {
  const StatisticsOutcome outcome =
      Of("{\"max\": 2, \"mean\": \"nan\"}", "{\"max\": 2, \"mean\": \"nan\"}");
  EXPECT_EQ(outcome.verdict, v1::PASS);
  EXPECT_EQ(outcome.reason, "statistics agree: max, mean");
  EXPECT_FALSE(outcome.is_bitwise_equal);
}

TEST(StatisticsJudgeTest, EqualOnesPassWhateverThePolicyAsks) {
  for (const char* value : {"0", "\"inf\""}) {
    const std::string text = std::string("{\"mean\": ") + value + "}";
    EXPECT_EQ(Under("cosine > 0.99", text, text).verdict, v1::PASS) << text;
  }
  EXPECT_EQ(Under("cosine > 0.99", "{\"max\": 1}", "{\"max\": 1.0}").verdict,
            v1::PASS);
}

TEST(StatisticsJudgeTest, MetricsOfManyElementsTellNothing) {
  for (const char* predicate :
       {"cosine >= 0.999", "msit_cosine > 0.99", "kl < 0.005", "msit_kl < 1",
        "pearson > 0.9", "argmax_agreement == 1", "top_k_overlap >= 1",
        "msprobe_cosine >= 0.9 and kl < 1", "psnr_db >= 10",
        "channel_nl2_max <= 0.1", "row_kl_max < 1", "top1_margin_flip == 0",
        "cosine >= 0.999 or max_abs <= 1e-3"}) {
    const StatisticsOutcome outcome =
        Under(predicate, "{\"max\": 5, \"min\": 0.02, \"mean\": 3.755}",
              "{\"max\": 1, \"min\": 0.01, \"mean\": 0.2575}");
    EXPECT_EQ(outcome.verdict, v1::SKIPPED) << predicate;
    EXPECT_EQ(outcome.reason,
              "the policy asks for nothing that statistics can tell");
    EXPECT_TRUE(outcome.parts.empty());
  }
  // Counts must be equal under every policy.
  EXPECT_EQ(Under("cosine >= 0.999", "{\"max\": 2, \"nan_count\": 1}",
                  "{\"max\": 1, \"nan_count\": 0}")
                .verdict,
            v1::FAIL);
}

TEST(StatisticsJudgeTest, OtherMetricsOfThePredicateDecideWhereTheyCan) {
  const auto verdict = [](const char* predicate, const char* target) {
    return Under(predicate, std::string("{\"max\": ") + target + "}",
                 "{\"max\": 1}")
        .verdict;
  };
  const char* both = "cosine >= 0.999 and kl < 1 and max_abs <= 1e-3";
  EXPECT_EQ(verdict(both, "1.0001"), v1::PASS);
  EXPECT_EQ(verdict(both, "1.1"), v1::FAIL);
  const char* either = "cosine >= 0.999 or max_abs <= 1e-3";
  EXPECT_EQ(verdict(either, "1.0001"), v1::PASS);
  EXPECT_EQ(verdict(either, "1.1"), v1::SKIPPED);
  const char* mixed =
      "max_abs <= 1 and cosine >= 0.9 and (max_abs <= 1e-3 or cosine >= 0.99) "
      "or mismatch_count == 0";
  EXPECT_EQ(verdict(mixed, "1.0001"), v1::PASS);
  EXPECT_EQ(verdict(mixed, "1.5"), v1::SKIPPED);
  EXPECT_EQ(verdict(mixed, "2.5"), v1::FAIL);
  EXPECT_EQ(verdict("not (cosine < 0.9 or max_abs > 1)", "1.5"), v1::PASS);
  EXPECT_EQ(verdict("cosine > 0.9 and mismatch_count == 0", "1.5"), v1::FAIL);
  EXPECT_EQ(verdict(both, "\"nan\""), v1::FAIL);
  EXPECT_EQ(Under("cosine > 0.9 or nl2 < 1e-3", "{\"max\": 1}", "{\"max\": 0}")
                .verdict,
            v1::SKIPPED);
  EXPECT_EQ(Under("nl2 < 1e-3", "{\"max\": 1}", "{\"max\": 0}").verdict,
            v1::FAIL);
  EXPECT_EQ(verdict("not (cosine < 0.9 or max_abs > 1)", "2.5"), v1::FAIL);
  const StatisticsOutcome outcome =
      Under(both, "{\"max\": 1.1}", "{\"max\": 1}");
  EXPECT_NE(outcome.reason.find("max_abs = 0.1, needs <= 1e-3"),
            std::string::npos)
      << outcome.reason;
  ASSERT_EQ(outcome.parts.size(), 1u);
  EXPECT_FALSE(
      outcome.parts[0].metrics[static_cast<int>(compute::Metric::kCosine)]);
}

TEST(StatisticsJudgeTest, NothingButTheTypeIsKnown) {
  for (const char* text : {"{}", "{\"count\": 4}"}) {
    EXPECT_EQ(Of(text, text).verdict, v1::SKIPPED);
    EXPECT_EQ(Of(text, text).reason, "nothing but type and shape is known");
  }
  const StatisticsOutcome outcome = Of("{\"max\": 1}", "{\"min\": 1}");
  EXPECT_EQ(outcome.verdict, v1::SKIPPED);
  EXPECT_EQ(outcome.reason,
            "no statistic is known of both sides; only golden has min; only "
            "target has max");
  EXPECT_EQ(Of("{}", "{\"min\": 1}").reason,
            "no statistic of the target is known");
  EXPECT_EQ(Of("{\"min\": 1}", "{}").reason,
            "no statistic of the golden is known");
  LogicalTensor empty = Statistics("{}");
  empty.shape = {0, 3};
  EXPECT_EQ(JudgeStatistics(empty, empty, Policy()).verdict, v1::PASS);
  EXPECT_EQ(JudgeStatistics(empty, empty, Policy()).reason, "no elements");
}

TEST(StatisticsJudgeTest, NanOnBothSidesTellsNothingUnlessAllElementsAre) {
  const std::string nan = "{\"max\": \"nan\", \"mean\": \"nan\"";
  for (const char* count : {"", ", \"count\": 4", ", \"nan_count\": 2"}) {
    const std::string text = nan + count + "}";
    EXPECT_EQ(Of(text, text).verdict, v1::SKIPPED) << text;
    EXPECT_TRUE(Of(text, text).reason.starts_with("all numbers are NaN"));
  }
  const std::string all = nan + ", \"nan_count\": 4}";
  EXPECT_EQ(Of(all, all).verdict, v1::PASS);
  EXPECT_EQ(Of(all, nan + ", \"nan_count\": 2}").verdict, v1::FAIL);
}

TEST(StatisticsJudgeTest, SmallErrorsPassUnderThePolicy) {
  EXPECT_EQ(Of("{\"max\": 1.0000001}", "{\"max\": 1}").verdict, v1::PASS);
  const StatisticsOutcome outcome =
      Of("{\"max\": 1.5, \"min\": 0, \"l2_norm\": 9}",
         "{\"max\": 1.25, \"min\": 0, \"l2_norm\": 3}");
  EXPECT_EQ(outcome.verdict, v1::FAIL);
  EXPECT_TRUE(outcome.reason.starts_with(
      "statistics differ: max: target 1.5, golden 1.25; nl2 = 0.2"))
      << outcome.reason;
  EXPECT_TRUE(outcome.reason.ends_with("; so does l2_norm")) << outcome.reason;
  ASSERT_EQ(outcome.deciding_part, 0);
  // The worst value of all parts.
  EXPECT_EQ(outcome.parts[0].metrics[static_cast<int>(compute::Metric::kNl2)],
            2);
}

TEST(StatisticsJudgeTest, ErrorsAreRelativeToTheMagnitudeOfTheElements) {
  // If elements are around zero, the minimum and the mean are mostly rounding
  // errors.
  EXPECT_EQ(Of("{\"max\": 8, \"min\": 3e-9, \"mean\": -2e-9}",
               "{\"max\": 8, \"min\": 1e-9, \"mean\": 1e-9}")
                .verdict,
            v1::PASS);
  EXPECT_EQ(Of("{\"min\": 3e-9}", "{\"min\": 1e-9}").verdict, v1::FAIL);
  EXPECT_EQ(Of("{\"max\": 8, \"min\": 3}", "{\"max\": 8, \"min\": 1}").verdict,
            v1::FAIL);
}

TEST(StatisticsJudgeTest, CountsMustAgree) {
  const StatisticsOutcome outcome =
      Of("{\"nan_count\": 1}", "{\"nan_count\": 0}");
  EXPECT_EQ(outcome.verdict, v1::FAIL);
  EXPECT_EQ(outcome.reason, "statistics differ: nan_count: target 1, golden 0");
  EXPECT_EQ(Of("{\"nan_count\": 1}", "{\"nan_count\": 1.0}").verdict, v1::PASS);
}

TEST(StatisticsJudgeTest, NotFiniteNumbersMustMeetTheirLike) {
  EXPECT_EQ(Of("{\"max\": \"inf\"}", "{\"max\": \"inf\"}").verdict, v1::PASS);
  EXPECT_EQ(Of("{\"max\": \"inf\"}", "{\"max\": \"-inf\"}").verdict, v1::FAIL);
  EXPECT_EQ(Of("{\"max\": \"nan\"}", "{\"max\": 1}").verdict, v1::FAIL);
}

TEST(StatisticsJudgeTest, EqualChecksumsPassAndOthersFailWhereNothingElseIs) {
  const StatisticsOutcome equal =
      Of("{\"max\": 1, \"mean\": 0.30000001, \"crc32\": \"0a\"}",
         "{\"max\": 1, \"mean\": 0.3, \"crc32\": \"0a\"}");
  EXPECT_EQ(equal.verdict, v1::PASS);
  EXPECT_TRUE(equal.is_bitwise_equal);
  EXPECT_EQ(equal.reason, "crc32 is 0a on both sides");
  const StatisticsOutcome other =
      Of("{\"crc32\": \"0b\"}", "{\"crc32\": \"0a\"}");
  EXPECT_EQ(other.verdict, v1::FAIL);
  EXPECT_EQ(other.reason,
            "the checksums differ, and nothing else is known: crc32: target "
            "0b, golden 0a");
  EXPECT_EQ(
      Of("{\"max\": 1, \"crc32\": \"0b\"}", "{\"max\": 1, \"crc32\": \"0a\"}")
          .verdict,
      v1::SKIPPED);
  // For other dtypes, equal checksums prove nothing.
  EXPECT_FALSE(JudgeStatistics(
                   Statistics("{\"crc32\": \"0a\"}"),
                   Statistics("{\"crc32\": \"0a\"}", DType::kFloat64), Policy())
                   .is_bitwise_equal);
}

TEST(StatisticsJudgeTest, EqualCrcsDoNotHideWhatDiffers) {
  EXPECT_EQ(
      Of("{\"max\": 1, \"crc32\": \"0a\"}", "{\"max\": 2, \"crc32\": \"0a\"}")
          .verdict,
      v1::FAIL);
  const StatisticsOutcome close = Of("{\"max\": 1, \"crc32\": \"0a\"}",
                                     "{\"max\": 1.000001, \"crc32\": \"0a\"}");
  EXPECT_EQ(close.reason, "statistics agree: max");
  EXPECT_FALSE(close.is_bitwise_equal);
  // A different xor contradicts the equal checksum.
  EXPECT_EQ(
      Of("{\"crc32\": \"0a\", \"xor\": 1}", "{\"crc32\": \"0a\", \"xor\": 2}")
          .verdict,
      v1::FAIL);
}

TEST(StatisticsJudgeTest, WhatDecidedNothingIsSaid) {
  const StatisticsOutcome lone = Of("{\"max\": 1, \"mean\": 0.5, \"std\": 2}",
                                    "{\"max\": 1, \"l2_norm\": 3}");
  EXPECT_EQ(lone.verdict, v1::PASS);
  EXPECT_EQ(lone.reason,
            "statistics agree: max; only golden has l2_norm; only target has "
            "mean, std");
  EXPECT_TRUE(lone.is_in_part);
  const StatisticsOutcome types = JudgeStatistics(
      Statistics("{\"max\": 1, \"crc32\": \"0a\"}"),
      Statistics("{\"max\": 1, \"crc32\": \"0a\"}", DType::kFloat64), Policy());
  EXPECT_EQ(types.reason,
            "statistics agree: max; of two types, crc32 says nothing");
  const char* same = "{\"max\": 1, \"crc32\": \"0a\"}";
  EXPECT_FALSE(Of(same, same).is_in_part);
  // With equal checksums, no other statistics are needed.
  EXPECT_FALSE(Of(same, "{\"crc32\": \"0a\"}").is_in_part);
}

TEST(StatisticsJudgeTest, AnEqualXorProvesNothing) {
  // Zeros, and an even number of words with the value 7.5.
  EXPECT_EQ(Of("{\"max\": 0, \"min\": 0, \"xor\": \"0x0\"}",
               "{\"max\": 7.5, \"min\": 7.5, \"xor\": \"0x0\"}")
                .verdict,
            v1::FAIL);
  const StatisticsOutcome alone =
      Of("{\"xor\": \"0x0\"}", "{\"xor\": \"0x0\"}");
  EXPECT_EQ(alone.verdict, v1::SKIPPED);
  EXPECT_EQ(alone.reason, "an equal xor does not prove equal bytes");
  const StatisticsOutcome beside =
      Of("{\"max\": 1, \"xor\": \"0x0\"}", "{\"max\": 1, \"xor\": \"0x0\"}");
  EXPECT_EQ(beside.verdict, v1::PASS);
  EXPECT_EQ(beside.reason, "statistics agree: max");
  EXPECT_FALSE(beside.is_bitwise_equal);
  EXPECT_EQ(Of("{\"xor\": \"0x1\"}", "{\"xor\": \"0x0\"}").verdict, v1::FAIL);
}

// The statistics of reordered elements agree, so a pass would be wrong.
TEST(StatisticsJudgeTest, OtherChecksumsAreNeverAPass) {
  const StatisticsOutcome outcome =
      Of("{\"max\": 1, \"crc32\": \"0b\", \"xor\": 1}",
         "{\"max\": 1, \"crc32\": \"0a\", \"xor\": 2}");
  EXPECT_EQ(outcome.verdict, v1::SKIPPED);
  EXPECT_EQ(
      outcome.reason,
      "statistics agree: max, but the checksums differ: crc32: target 0b, "
      "golden 0a");
  EXPECT_TRUE(outcome.parts.empty());
}

TEST(StatisticsJudgeTest, OtherChecksumsFailUnderThePresetOfMsprobe) {
  PolicySpec spec;
  spec.preset = Preset::kMsprobe;
  const auto policy = Policy::Create(spec);
  ASSERT_TRUE(policy.ok());
  const StatisticsOutcome outcome =
      JudgeStatistics(Statistics("{\"max\": 1, \"crc32\": \"0b\"}"),
                      Statistics("{\"max\": 1, \"crc32\": \"0a\"}"), *policy);
  EXPECT_EQ(outcome.verdict, v1::FAIL);
  EXPECT_EQ(outcome.reason,
            "the checksums differ, and the policy asks for equal checksums: "
            "crc32: target 0b, golden 0a");
}

TEST(StatisticsJudgeTest, OtherChecksumsFailWhereThePolicyAsksForEqualBytes) {
  const char* target = "{\"max\": 1, \"xor\": \"0x1\"}";
  const char* golden = "{\"max\": 1, \"xor\": \"0x0\"}";
  EXPECT_EQ(Of(target, golden).verdict, v1::SKIPPED);
  EXPECT_EQ(Of(target, golden, DType::kInt64).verdict, v1::FAIL);
  const StatisticsOutcome bitwise =
      Under("bitwise_mismatch_count == 0", target, golden);
  EXPECT_EQ(bitwise.verdict, v1::FAIL);
  EXPECT_EQ(bitwise.reason,
            "the checksums differ, and the policy asks for equal elements: "
            "xor: target 0x1, golden 0x0");
}

TEST(StatisticsJudgeTest, IntegersAreExactAndTheirMeansAreNot) {
  EXPECT_EQ(Of("{\"max\": 9223372036854775807}",
               "{\"max\": 9223372036854775806}", DType::kInt64)
                .verdict,
            v1::FAIL);
  EXPECT_EQ(Of("{\"max\": 7, \"mean\": 1.3333334}",
               "{\"max\": 7, \"mean\": 1.3333333}", DType::kInt64)
                .verdict,
            v1::PASS);
  EXPECT_EQ(Of("{\"max\": true}", "{\"max\": 1}", DType::kBool).verdict,
            v1::PASS);
}

TEST(StatisticsJudgeTest, ATensorIsSetBesideStatisticsByItsSummary) {
  const LogicalTensor tensor = Tensor({1, -2, 0.5, 0.5});
  const auto judge = [&tensor](const std::string& text) {
    return JudgeStatistics(tensor, Statistics(text), Policy());
  };
  const StatisticsOutcome alike = judge(
      "{\"max\": 1, \"min\": -2, \"mean\": 0, \"l2_norm\": 2.345208, "
      "\"count\": 4, \"crc32\": \"0a\"}");
  EXPECT_EQ(alike.verdict, v1::PASS);
  EXPECT_EQ(alike.reason,
            "statistics agree: max, min, mean, l2_norm, count; only golden has "
            "crc32");
  EXPECT_EQ(judge("{\"max\": 2}").verdict, v1::FAIL);
  EXPECT_EQ(judge("{\"crc32\": \"0a\"}").verdict, v1::SKIPPED);
}

TEST(StatisticsJudgeTest, SummariesAreWrittenAsToolsSayThem) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(StatisticsText(Tensor({3, -4}).summary),
            "{\"max\": 3, \"min\": -4, \"mean\": -0.5, \"l2_norm\": 5, "
            "\"count\": 2, \"nan_count\": 0, \"pos_inf_count\": 0, "
            "\"neg_inf_count\": 0}");
  for (const std::vector<float>& values :
       std::vector<std::vector<float>>{{},
                                       {1, kNan, kInfinity},
                                       {1, kInfinity},
                                       {-kInfinity, 2},
                                       {kInfinity, -kInfinity}}) {
    const std::string text = StatisticsText(Tensor(values).summary);
    EXPECT_TRUE(ParseTensorStatistics(text).has_value()) << text;
  }
  EXPECT_TRUE(StatisticsText(Tensor({kNan, 1}).summary)
                  .starts_with("{\"max\": \"nan\", \"min\": \"nan\""));
  EXPECT_TRUE(StatisticsText(Tensor({-kInfinity, 1}).summary)
                  .starts_with("{\"max\": 1, \"min\": \"-inf\", \"mean\": "
                               "\"-inf\", \"l2_norm\": \"inf\""));
}

TEST(StatisticsJudgeTest, NamesThatNobodyKnowsAreComparedToo) {
  EXPECT_EQ(Of("{\"median\": 1}", "{\"median\": 2}").verdict, v1::FAIL);
  EXPECT_EQ(Of("{\"unit\": \"V\"}", "{\"unit\": \"V\"}").verdict, v1::PASS);
  EXPECT_EQ(Of("{\"unit\": \"V\"}", "{\"unit\": \"A\"}").verdict, v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
