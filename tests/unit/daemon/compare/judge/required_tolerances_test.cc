// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/required_tolerances.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "daemon/compare/judge/row_metrics.h"

namespace msitd::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxAbs = static_cast<int>(compute::Metric::kMaxAbs);
constexpr int kMismatchCount =
    static_cast<int>(compute::Metric::kMismatchCount);

predicate::Predicate Parsed(const std::string& text) {
  auto predicate = predicate::Predicate::Parse(text, MetricNames());
  EXPECT_TRUE(predicate.ok()) << text;
  return *std::move(predicate);
}

RowMetrics Row(std::optional<double> max_abs, double mismatch_count = 0) {
  RowMetrics out;
  out[kMaxAbs] = max_abs;
  out[kMismatchCount] = mismatch_count;
  return out;
}

// Collects the rows as the engine does.
v1::Comparison Collect(const predicate::Predicate& predicate,
                       const std::vector<RowMetrics>& rows) {
  RequiredTolerances tolerances;
  Verification verification;
  verification.predicate = &predicate;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    tolerances.Add(verification, rows[i], row);
    if (!predicate.Holds(rows[i])) tolerances.AddFailure(row);
  }
  v1::Comparison out;
  tolerances.Show(out);
  return out;
}

// Random predicates whose numbers can be replaced.
class Grammar {
 public:
  explicit Grammar(uint32_t seed) : random_(seed) {}

  int Draw(int count) { return static_cast<int>(random_() % count); }

  // Returns a predicate with "{}" for each number.
  std::string Text(int depth) {
    switch (depth == 0 ? 0 : Draw(5)) {
      case 0:
      case 1:
        return Comparison();
      case 2:
        return fmt::format("({} and {})", Text(depth - 1), Text(depth - 1));
      case 3:
        return fmt::format("({} or {})", Text(depth - 1), Text(depth - 1));
      default:
        return fmt::format("not {}", Text(depth - 1));
    }
  }

  double Number() { return std::ldexp(1 + Draw(1 << 20) * 1e-7, Draw(8) - 4); }

  RowMetrics Metrics() {
    RowMetrics out;
    for (auto& value : out) value = Number();
    if (Draw(20) == 0) out[Draw(kMismatchCount)].reset();
    if (Draw(20) == 0) out[Draw(kMismatchCount)] = kInfinity;
    return out;
  }

 private:
  std::string Comparison() {
    static constexpr const char* kOperators[] = {"<", "<=", ">", ">="};
    const std::string_view name = MetricNames()[Draw(kMismatchCount)];
    const char* op = kOperators[Draw(4)];
    return Draw(3) == 0 ? fmt::format("{{}} {} {}", op, name)
                        : fmt::format("{} {} {{}}", name, op);
  }

  std::mt19937 random_;
};

std::string Filled(std::string_view text, const std::vector<double>& numbers) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      out += text[at];
      continue;
    }
    out += fmt::format("{}", numbers[next++]);
    ++at;
  }
  return out;
}

TEST(RequiredTolerancesTest, WithTheBoundsAskedForAllRowsPassButTheHopeless) {
  Grammar grammar(1);
  int64_t cured = 0;
  int64_t hopeless = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string text = grammar.Text(3);
    std::vector<double> numbers(
        Parsed(Filled(text, std::vector<double>(64))).Bounds().size());
    for (double& number : numbers) number = grammar.Number();
    const predicate::Predicate predicate = Parsed(Filled(text, numbers));
    std::vector<RowMetrics> rows(1 + grammar.Draw(5));
    for (RowMetrics& row : rows) row = grammar.Metrics();

    const v1::Comparison comparison = Collect(predicate, rows);
    // A bound is not reported if no row has its metric.
    if (static_cast<size_t>(comparison.required_tolerances_size()) !=
        numbers.size()) {
      continue;
    }
    std::vector<double> asked;
    for (const auto& needed : comparison.required_tolerances()) {
      asked.push_back(needed.required());
    }
    const predicate::Predicate changed = Parsed(Filled(text, asked));
    int64_t failures = 0;
    for (const RowMetrics& row : rows) {
      failures += changed.Holds(row) ? 0 : 1;
      cured += changed.Holds(row) && !predicate.Holds(row) ? 1 : 0;
    }
    ASSERT_EQ(failures, comparison.hopeless_count()) << predicate.text() << "\n"
                                                     << changed.text();
    hopeless += failures;
  }
  EXPECT_GT(cured, 500);
  EXPECT_GT(hopeless, 10);
}

TEST(RequiredTolerancesTest, AStrictBoundIsBeyondTheWorstValue) {
  const v1::Comparison comparison =
      Collect(Parsed("max_abs < 1"), {Row(2.0), Row(0.5)});
  ASSERT_EQ(comparison.required_tolerances_size(), 1);
  const v1::RequiredTolerance& needed = comparison.required_tolerances(0);
  EXPECT_EQ(needed.required(), std::nextafter(2.0, kInfinity));
  EXPECT_TRUE(needed.strict());
  EXPECT_EQ(needed.row(), 0);
}

TEST(RequiredTolerancesTest, NotTurnsABoundRound) {
  const v1::Comparison comparison =
      Collect(Parsed("not max_abs >= 1"), {Row(2.0)});
  ASSERT_EQ(comparison.required_tolerances_size(), 1);
  const v1::RequiredTolerance& needed = comparison.required_tolerances(0);
  EXPECT_FALSE(needed.at_least());
  EXPECT_TRUE(needed.strict());
  EXPECT_TRUE(needed.negated());
  EXPECT_EQ(needed.required(), std::nextafter(2.0, kInfinity));
}

TEST(RequiredTolerancesTest, WhatNoBoundCuresIsCounted) {
  const predicate::Predicate predicate =
      Parsed("max_abs <= 1 and mismatch_count == 0");
  v1::Comparison comparison =
      Collect(predicate, {Row(2.0), Row(2.0, 1), Row(0, 1), Row(0)});
  EXPECT_EQ(comparison.hopeless_count(), 2);
  EXPECT_EQ(comparison.first_hopeless_row(), 1);
  // An absent metric satisfies no bound, and no number is above infinity.
  comparison = Collect(Parsed("max_abs < 1"), {Row({}), Row(kInfinity)});
  EXPECT_EQ(comparison.hopeless_count(), 2);
  EXPECT_EQ(Collect(predicate, {Row(2.0)}).first_hopeless_row(), -1);
}

TEST(RequiredTolerancesTest, WhatStatisticsDoNotTellIsNoReasonToFail) {
  const auto hopeless = [](const std::string& text, const RowMetrics& row) {
    const predicate::Predicate predicate = Parsed(text);
    RequiredTolerances tolerances;
    Verification verification;
    verification.predicate = &predicate;
    tolerances.AddStatistics(verification, row, 0);
    tolerances.AddFailure(0);
    v1::Comparison out;
    tolerances.Show(out);
    for (const auto& needed : out.required_tolerances()) {
      EXPECT_NE(needed.metric(), "cosine");
      EXPECT_TRUE(std::isfinite(needed.required()));
    }
    return out.hopeless_count();
  };
  EXPECT_EQ(hopeless("cosine >= 0.99 and max_abs <= 1", Row(2.0)), 0);
  EXPECT_EQ(hopeless("kl < 0.1 and not max_abs > 1", Row(2.0)), 0);
  EXPECT_EQ(hopeless("cosine >= 0.99 and max_abs <= 1 and mismatch_count == 0",
                     Row(2.0, 1)),
            1);
  // For example, a row whose counts differ.
  EXPECT_EQ(hopeless("cosine >= 0.99 and max_abs <= 1", Row(0.5)), 1);
  EXPECT_EQ(hopeless("cosine >= 0.99 and max_abs < 1", Row(kInfinity)), 1);
}

// If the golden tensor is zero, no relative bound would be sufficient.
TEST(RequiredTolerancesTest, BesideZerosMaxAbsIsAskedFor) {
  constexpr int kNl2 = static_cast<int>(compute::Metric::kNl2);
  const auto predicate = Parsed("nl2 <= 0.5");
  const auto row = [](double nl2, double max_abs) {
    RowMetrics out = Row(max_abs, 1);
    out[kNl2] = nl2;
    return out;
  };
  const v1::Comparison comparison = Collect(
      predicate, {row(kInfinity, 1e-10), row(0.75, 3), row(kInfinity, 5e-10)});
  ASSERT_EQ(comparison.required_tolerances_size(), 2);
  EXPECT_EQ(comparison.required_tolerances(0).metric(), "nl2");
  EXPECT_EQ(comparison.required_tolerances(0).required(), 0.75);
  EXPECT_EQ(comparison.required_tolerances(0).row(), 1);
  EXPECT_EQ(comparison.required_tolerances(0).row_count(), 3);
  EXPECT_EQ(comparison.required_tolerances(1).metric(), "max_abs");
  EXPECT_TRUE(std::isnan(comparison.required_tolerances(1).bound()));
  EXPECT_EQ(comparison.required_tolerances(1).required(), 5e-10);
  EXPECT_EQ(comparison.required_tolerances(1).row(), 2);
  EXPECT_EQ(comparison.hopeless_count(), 0);
  // No other row requires another bound, so the bound is unchanged.
  const v1::Comparison zeros = Collect(predicate, {row(kInfinity, 1e-10)});
  ASSERT_EQ(zeros.required_tolerances_size(), 2);
  EXPECT_EQ(zeros.required_tolerances(0).required(), 0.5);
}

}  // namespace
}  // namespace msitd::compare
