// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/tensor_condition.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace msitd::service {
namespace {

// Returns whether statistics of eight elements of float16 satisfy a condition.
std::optional<bool> Evaluate(const std::string& where,
                             const std::string& statistics) {
  const auto condition = TensorCondition::Parse(where);
  EXPECT_TRUE(condition.ok()) << condition.status();
  storage::TensorInfo tensor;
  tensor.kind = RecordKind::kStatistics;
  tensor.dtype = DType::kFloat16;
  tensor.shape = {4, 2};
  tensor.value = statistics;
  return condition->Evaluate(tensor);
}

TEST(TensorConditionTest, StatisticsAreJudgedByTheValuesThatTheyState) {
  const std::string counts =
      R"({"count": 8, "nan_count": 0, "pos_inf_count": 0, "neg_inf_count": 0})";
  EXPECT_EQ(Evaluate("l1_norm > 1e6", counts), std::nullopt);
  EXPECT_EQ(Evaluate("zero_count == 0", counts), std::nullopt);
  EXPECT_EQ(Evaluate("max < 1", counts), std::nullopt);
  EXPECT_EQ(Evaluate("l2_norm < 1", counts), std::nullopt);
  EXPECT_EQ(Evaluate("nan_count > 0", counts), false);
  EXPECT_EQ(Evaluate("size_bytes == 16", counts), true);
  const std::string extremes = R"({"max": 3, "min": -5})";
  EXPECT_EQ(Evaluate("abs_max > 4", extremes), true);
  EXPECT_EQ(Evaluate("max > 4", extremes), false);
  EXPECT_EQ(Evaluate("abs_max > 4", R"({"max": 9})"), std::nullopt);
}

TEST(TensorConditionTest, AValueThatIsNotStatedIsNotAbsent) {
  EXPECT_EQ(Evaluate("max > 1 if present", "{}"), std::nullopt);
  EXPECT_EQ(Evaluate("not l1_norm > 1", "{}"), std::nullopt);
  // The other side decides.
  EXPECT_EQ(Evaluate("l1_norm > 1 or count == 8", "{}"), true);
  EXPECT_EQ(Evaluate("l1_norm > 1 and count == 9", "{}"), false);
}

TEST(TensorConditionTest, TensorsWithASummaryAlwaysHaveAResult) {
  const auto condition = TensorCondition::Parse("max > 1");
  ASSERT_TRUE(condition.ok());
  EXPECT_EQ(condition->Evaluate(storage::TensorInfo()), false);
}

TEST(TensorConditionTest, EqualConditionsHaveTheSameComparisons) {
  const auto are_equal = [](const char* a, const char* b) {
    return *TensorCondition::Parse(a) == *TensorCondition::Parse(b);
  };
  EXPECT_TRUE(are_equal("nan_count > 0 or inf_count > 0",
                        "(nan_count>0)  or (inf_count > 0.0)"));
  EXPECT_FALSE(are_equal("nan_count > 0", "nan_count >= 0"));
  EXPECT_FALSE(are_equal("nan_count > 0", "nan_count > 1"));
  EXPECT_FALSE(
      are_equal("nan_count > 0 or max > 1", "nan_count > 0 and max > 1"));
  EXPECT_FALSE(are_equal("nan_count > 0", ""));
}

}  // namespace
}  // namespace msitd::service
