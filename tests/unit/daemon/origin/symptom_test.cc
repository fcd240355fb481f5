// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/symptom.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;

storage::TensorInfo Statistics(const std::string& text) {
  storage::TensorInfo tensor;
  tensor.kind = RecordKind::kStatistics;
  tensor.value = text;
  return tensor;
}

TEST(SummaryOfTest, StatisticsWithCountsAreASummary) {
  const auto summary = SummaryOf(
      Statistics(R"({"count": 8, "nan_count": 1, "pos_inf_count": 2, )"
                 R"("neg_inf_count": 0, "max": 3, "mean": 2})"),
      /*is_not_finite=*/false);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->finite_count(), 5u);
  EXPECT_EQ(summary->max, 3);
  EXPECT_EQ(summary->sum, 10);
}

TEST(SummaryOfTest, WithoutCountsOnlyProofCounts) {
  const auto is_bad = [](const std::string& text) -> std::optional<bool> {
    const auto summary = SummaryOf(Statistics(text), /*is_not_finite=*/true);
    if (!summary.has_value()) return std::nullopt;
    return summary->finite_count() < summary->count;
  };
  EXPECT_EQ(is_bad(R"({"mean": "nan"})"), true);
  EXPECT_EQ(is_bad(R"({"max": "inf"})"), true);
  EXPECT_EQ(is_bad(R"({"max": 1, "l2_norm": 2})"), false);
  EXPECT_EQ(is_bad(R"({"max": 1, "min": 0})"), std::nullopt);
  EXPECT_EQ(is_bad("{}"), std::nullopt);
  EXPECT_EQ(is_bad("no json"), std::nullopt);
  EXPECT_EQ(is_bad(R"({"nan_count": -3, "count": 1e300, "l2_norm": 1})"),
            false);
  EXPECT_EQ(SummaryOf(Statistics(R"({"max": 1, "l2_norm": 2})"),
                      /*is_not_finite=*/false),
            std::nullopt);
}

// Returns the answer for a call with these elements.
std::string AnswerFor(const std::string& op, std::vector<float> input,
                      std::vector<float> output,
                      const std::string& module_class = "") {
  FakeStore store;
  CreateRun(store);
  {
    RecordedProgram program(store);
    if (!module_class.empty()) {
      program.AddDocument("module_tree.json", R"({"modules":[{"op":")" + op +
                                                  R"(","class":")" +
                                                  module_class + R"("}]})");
    }
    program.Call(op, std::move(input), std::move(output));
  }
  return Describe(Search(store));
}

TEST(SymptomJudgeTest, MinusInfinityAloneIsAMaskOfSomeOps) {
  EXPECT_EQ(AnswerFor("Tensor.masked_fill", {1}, {-kInf}), "none");
  EXPECT_EQ(AnswerFor("Torch.log", {0}, {-kInf}), "none");
  EXPECT_EQ(AnswerFor("Torch.add", {-kInf}, {-kInf}), "none");
  EXPECT_EQ(AnswerFor("root", {1}, {-kInf}, "mine.Scores"), "none");
}

TEST(SymptomJudgeTest, MinusInfinityOfArithmeticIsASymptom) {
  EXPECT_EQ(AnswerFor("Torch.matmul", {1}, {-kInf}), "op Torch.matmul");
  EXPECT_EQ(AnswerFor("Torch.log", {1}, {-kInf}), "op Torch.log");
  EXPECT_EQ(AnswerFor("root", {1}, {-kInf}, "torch.nn.modules.linear.Linear"),
            "op root");
}

TEST(SymptomJudgeTest, MinusInfinityOfAnUnknownKindOfOpIsNotJudged) {
  for (const char* op : {"MatMul_3", "root", "Module.fc.Linear.forward.0"}) {
    FakeStore store;
    CreateRun(store);
    RecordedProgram(store).Call(op, {1}, {-kInf});
    const OriginAnswer answer = Search(store);
    EXPECT_EQ(Describe(answer), "none");
    EXPECT_EQ(answer.unknown_count, 1u) << op;
  }
}

TEST(SymptomJudgeTest, PlusInfinityIsASymptomOfEveryOp) {
  EXPECT_EQ(AnswerFor("Tensor.masked_fill", {1}, {kInf}),
            "op Tensor.masked_fill");
}

TEST(SymptomJudgeTest, MemoryThatWasNotWrittenIsIgnored) {
  EXPECT_EQ(AnswerFor("Torch.empty_like", {1}, {kInf}), "none");
}

}  // namespace
}  // namespace msitd::origin
