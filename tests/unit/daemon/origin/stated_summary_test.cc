// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/stated_summary.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace msitd::origin {
namespace {

storage::TensorInfo Statistics(const std::string& text) {
  storage::TensorInfo tensor;
  tensor.kind = RecordKind::kStatistics;
  tensor.dtype = DType::kFloat16;
  tensor.shape = {4, 2};
  tensor.value = text;
  return tensor;
}

// Returns `clean`, `unknown`, `-inf only`, or `bad`.
std::string StateOf(const std::string& text) {
  const auto stated = StatedSummaryOf(Statistics(text));
  if (!stated.has_value()) return "unknown";
  const Summary& summary = stated->summary;
  // Must not underflow.
  EXPECT_LE(summary.finite_count(), summary.count) << text;
  if (summary.finite_count() == summary.count) return "clean";
  return summary.nan_count == 0 && summary.positive_infinity_count == 0
             ? "-inf only"
             : "bad";
}

TEST(StatedSummaryTest, CountsAreASummary) {
  const auto stated = StatedSummaryOf(
      Statistics(R"({"count": 8, "nan_count": 1, "pos_inf_count": 2, )"
                 R"("neg_inf_count": 0, "max": 3, "mean": 2})"));
  ASSERT_TRUE(stated.has_value());
  EXPECT_TRUE(stated->has_counts);
  EXPECT_EQ(stated->summary.finite_count(), 5u);
  EXPECT_EQ(stated->summary.max, 3);
  EXPECT_EQ(stated->summary.sum, 10);
}

TEST(StatedSummaryTest, WithoutCountsOnlyProofCounts) {
  EXPECT_EQ(StateOf(R"({"mean": "nan"})"), "bad");
  EXPECT_EQ(StateOf(R"({"max": "inf"})"), "bad");
  EXPECT_EQ(StateOf(R"({"max": 1, "l2_norm": 2})"), "clean");
  EXPECT_EQ(StateOf(R"({"max": 1, "min": 0})"), "clean");
  EXPECT_EQ(StateOf(R"({"max": 1})"), "unknown");
  EXPECT_EQ(StateOf(R"({"nan_count": 0, "pos_inf_count": 0})"), "unknown");
  EXPECT_EQ(StateOf("{}"), "unknown");
  EXPECT_EQ(StateOf("no json"), "unknown");
}

TEST(StatedSummaryTest, ExtremesTellInfinitiesFromOverflow) {
  EXPECT_EQ(StateOf(R"({"max": 0, "min": "-inf", "mean": "-inf", )"
                    R"("l2_norm": "inf"})"),
            "-inf only");
  EXPECT_EQ(StateOf(R"({"max": "inf", "min": 0, "mean": "inf", )"
                    R"("l2_norm": "inf"})"),
            "bad");
  EXPECT_EQ(StateOf(R"({"max": "inf", "min": "-inf", "mean": "nan"})"), "bad");
  EXPECT_EQ(StateOf(R"({"max": 1100, "min": 1100, "mean": 1100, )"
                    R"("l2_norm": "inf"})"),
            "clean");
  EXPECT_EQ(StateOf(R"({"max": 60000, "min": 1, "mean": "inf"})"), "clean");
  EXPECT_EQ(StateOf(R"({"l2_norm": "inf"})"), "unknown");
  EXPECT_EQ(StateOf(R"({"mean": "inf", "max": 1})"), "unknown");
  // NaN and +Inf are not excluded.
  EXPECT_EQ(StateOf(R"({"min": "-inf"})"), "unknown");
  EXPECT_EQ(StateOf(R"({"neg_inf_count": 2})"), "unknown");
}

TEST(StatedSummaryTest, ContradictoryCountsAreNeverClean) {
  EXPECT_EQ(StateOf(R"({"count": 2, "nan_count": 3, "pos_inf_count": 0, )"
                    R"("neg_inf_count": 0})"),
            "bad");
  EXPECT_EQ(StateOf(R"({"count": 2, "nan_count": 0, "pos_inf_count": 0, )"
                    R"("neg_inf_count": 3})"),
            "unknown");
  EXPECT_EQ(StateOf(R"({"count": 0, "nan_count": 3})"), "bad");
  EXPECT_EQ(StateOf(R"({"nan_count": -3, "count": 1e300, "l2_norm": 1})"),
            "unknown");
  EXPECT_EQ(StateOf(R"({"nan_count": "many", "l2_norm": 1})"), "unknown");
  // A count of zero does not outweigh an element that is shown.
  EXPECT_EQ(StateOf(R"({"max": "nan", "nan_count": 0, "pos_inf_count": 0, )"
                    R"("neg_inf_count": 0})"),
            "bad");
}

TEST(StatedSummaryTest, WithoutTotalCountTheShapeCounts) {
  const auto stated =
      StatedSummaryOf(Statistics(R"({"nan_count": 0, "pos_inf_count": 0, )"
                                 R"("neg_inf_count": 6})"));
  ASSERT_TRUE(stated.has_value());
  EXPECT_EQ(stated->summary.count, 8u);
  EXPECT_EQ(stated->summary.negative_infinity_count, 6u);
  EXPECT_TRUE(stated->has_counts);
  storage::TensorInfo empty = Statistics(R"({"mean": "nan"})");
  empty.shape = {0, 4};
  const auto of_empty = StatedSummaryOf(empty);
  ASSERT_TRUE(of_empty.has_value());
  EXPECT_EQ(of_empty->summary.nan_count, 0u);
}

TEST(StatedValuesTest, OnlyStatedValuesExist) {
  const StatedValues values = StatedValuesOf(
      Statistics(R"({"max": 4, "min": 2, "mean": 3, "l2_norm": "inf"})"));
  EXPECT_EQ(values.count, 8);
  EXPECT_EQ(values.nan_count, 0);
  EXPECT_EQ(values.infinity_count, 0);
  EXPECT_EQ(values.max, 4);
  EXPECT_EQ(values.sum, 24);
  EXPECT_EQ(values.zero_count, std::nullopt);
  EXPECT_EQ(values.l1_norm, std::nullopt);
  EXPECT_EQ(values.l2_norm, std::nullopt);
}

TEST(StatedValuesTest, NothingIsKnownOfContradictions) {
  const StatedValues values =
      StatedValuesOf(Statistics(R"({"count": 2, "nan_count": 3})"));
  EXPECT_EQ(values.count, std::nullopt);
  EXPECT_EQ(values.nan_count, std::nullopt);
  EXPECT_EQ(values.max, std::nullopt);
  EXPECT_EQ(StatedValuesOf(Statistics("no json")).count, std::nullopt);
}

}  // namespace
}  // namespace msitd::origin
