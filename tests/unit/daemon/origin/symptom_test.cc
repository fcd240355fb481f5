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

TEST(SymptomJudgeTest, PlusInfinityIsASymptomOfEveryOp) {
  EXPECT_EQ(AnswerFor("Tensor.masked_fill", {1}, {kInf}),
            "op Tensor.masked_fill");
}

TEST(SymptomJudgeTest, MemoryThatWasNotWrittenIsIgnored) {
  EXPECT_EQ(AnswerFor("Torch.empty_like", {1}, {kInf}), "none");
}

}  // namespace
}  // namespace msitd::origin
