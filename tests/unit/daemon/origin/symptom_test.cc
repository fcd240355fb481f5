// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/symptom.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;

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

TEST(SymptomJudgeTest, NumbersAreJudged) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .In("root", {1})
      .In("Tensor.__mul__", {1})
      .AddNumber(Io::kInput, "Tensor.__mul__", kNan, "1")
      .Out("Tensor.__mul__", {kNan})
      .Out("root", {kNan});
  EXPECT_EQ(Describe(Search(store)), "code root before Tensor.__mul__");
}

TEST(SymptomJudgeTest, ANumberIsAResult) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .In("root", {kNan})
      .AddNumber(Io::kOutput, "root", kNan);
  EXPECT_EQ(Describe(Search(store)), "input root");
}

TEST(SymptomJudgeTest, ANumberWithoutEffectIsIgnored) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .In("Tensor.clamp", {1})
      .AddNumber(Io::kInput, "Tensor.clamp", kInf, "max")
      .Out("Tensor.clamp", {1});
  EXPECT_EQ(Describe(Search(store)), "none");
}

TEST(SymptomJudgeTest, StatisticsAreJudged) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store).AddStatistics(
      "root", R"({"max": 1100, "min": 1100, "mean": 1100, "l2_norm": "inf"})");
  const OriginAnswer answer = Search(store);
  EXPECT_EQ(Describe(answer), "none");
  EXPECT_EQ(answer.unknown_count, 0u);
}

TEST(SymptomJudgeTest, MemoryThatWasNotWrittenIsIgnored) {
  EXPECT_EQ(AnswerFor("Torch.empty_like", {1}, {kInf}), "none");
}

}  // namespace
}  // namespace msitd::origin
