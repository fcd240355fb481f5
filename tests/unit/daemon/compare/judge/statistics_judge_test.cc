// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/statistics_judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compute/digest.h"
#include "protos/base/tensor_statistics.h"

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

TEST(StatisticsJudgeTest, EqualOnesPassAndSayWhatWasCompared) {
  const StatisticsOutcome outcome =
      Of("{\"max\": 2, \"mean\": \"nan\"}", "{\"max\": 2, \"mean\": \"nan\"}");
  EXPECT_EQ(outcome.verdict, v1::PASS);
  EXPECT_EQ(outcome.reason, "statistics agree: max, mean");
  EXPECT_FALSE(outcome.is_bitwise_equal);
}

TEST(StatisticsJudgeTest, EqualOnesPassWhateverThePolicyAsks) {
  const PolicyRule rule = {.op_pattern = "*", .predicate = "cosine > 0.99"};
  const auto policy = Policy::Create(std::span(&rule, 1));
  ASSERT_TRUE(policy.ok());
  for (const char* value : {"0", "\"nan\"", "\"inf\""}) {
    const std::string text = std::string("{\"mean\": ") + value + "}";
    EXPECT_EQ(
        JudgeStatistics(Statistics(text), Statistics(text), *policy).verdict,
        v1::PASS)
        << text;
  }
  EXPECT_EQ(JudgeStatistics(Statistics("{\"mean\": -1}"),
                            Statistics("{\"mean\": 1}"), *policy)
                .verdict,
            v1::FAIL);
}

TEST(StatisticsJudgeTest, NothingButTheTypeIsKnown) {
  EXPECT_EQ(Of("{}", "{}").verdict, v1::PASS);
  EXPECT_EQ(Of("{}", "{}").reason, "nothing but type and shape is known");
  const StatisticsOutcome outcome = Of("{\"max\": 1}", "{\"min\": 1}");
  EXPECT_EQ(outcome.verdict, v1::SKIPPED);
  EXPECT_EQ(outcome.reason, "no statistic is known of both sides");
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
  // The worst of all.
  EXPECT_EQ(outcome.parts[0].metrics[static_cast<int>(compute::Metric::kNl2)],
            2);
}

TEST(StatisticsJudgeTest, ErrorsAreRelativeToTheMagnitudeOfTheElements) {
  // Of elements around zero, the smallest and the mean are mostly rounding.
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
      Of("{\"max\": 1, \"crc32\": \"0a\"}", "{\"max\": 2, \"crc32\": \"0a\"}");
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
      v1::PASS);
  // Of other types, equal checksums say nothing.
  EXPECT_FALSE(JudgeStatistics(
                   Statistics("{\"crc32\": \"0a\"}"),
                   Statistics("{\"crc32\": \"0a\"}", DType::kFloat64), Policy())
                   .is_bitwise_equal);
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
  EXPECT_EQ(alike.reason, "statistics agree: max, min, mean, l2_norm, count");
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
