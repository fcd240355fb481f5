// SPDX-License-Identifier: Apache-2.0
#include "protos/bounds/bound_share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace msitd {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

v1::Metric MetricNamed(const char* name, const char* unit = "") {
  v1::Metric metric;
  metric.set_name(name);
  metric.set_unit(unit);
  return metric;
}

TEST(BoundShareTest, AnErrorIsAMultipleOfItsBound) {
  const v1::Metric nl2 = MetricNamed("nl2");
  EXPECT_EQ(ShareOf(nl2, 0.25, 0.5, false), 0.5);
  EXPECT_EQ(ShareOf(nl2, 1, 0.5, false), 2);
  EXPECT_EQ(ShareOf(nl2, 0, 0, false), 0);
  EXPECT_EQ(ShareOf(nl2, 1e-300, 0, false), kInf);
  EXPECT_EQ(ShareOf(nl2, std::nan(""), 0.5, false), kInf);
}

TEST(BoundShareTest, WhatIsToBeLargeMissesTheBestValue) {
  const v1::Metric cosine = MetricNamed("cosine");
  EXPECT_EQ(ShareOf(cosine, 0.75, 0.5, true), 0.5);
  EXPECT_EQ(ShareOf(cosine, 0, 0.5, true), 2);
  EXPECT_EQ(ShareOf(cosine, 1, 0.5, true), 0);
  const v1::Metric sqnr = MetricNamed("sqnr_db", "dB");
  EXPECT_DOUBLE_EQ(ShareOf(sqnr, 20, 40, true), 10);
  EXPECT_DOUBLE_EQ(ShareOf(sqnr, 60, 40, true), 0.1);
  EXPECT_EQ(ShareOf(sqnr, kInf, 40, true), 0);
  EXPECT_EQ(ShareOf(MetricNamed("count", "elements"), 5, 10, true), 2);
}

// Returns a comparison with the policy nl2 <= 0.5 and cosine >= 0.5.
v1::Comparison TwoBounds() {
  v1::Comparison comparison;
  for (const char* metric : {"nl2", "cosine"}) {
    v1::RequiredTolerance& needed = *comparison.add_required_tolerances();
    needed.set_predicate("both");
    needed.set_metric(metric);
    needed.set_bound(0.5);
    needed.set_at_least(needed.metric() == "cosine");
  }
  return comparison;
}

v1::ComparisonRow RowWith(v1::Verdict verdict, double nl2, double cosine) {
  v1::ComparisonRow row;
  row.set_verdict(verdict);
  row.set_predicate("both");
  const auto add = [&row](const char* name, double value) {
    v1::MetricValue& metric = *row.add_metrics();
    metric.set_metric(name);
    metric.set_value(value);
  };
  add("nl2", nl2);
  add("cosine", cosine);
  return row;
}

TEST(BoundShareTest, TheNearestBoundDecidesAPassTheFirstOneAFailure) {
  const Bounds bounds(TwoBounds(), {MetricNamed("cosine")});
  const auto pass = bounds.Decided(RowWith(v1::PASS, 0.125, 0.75));
  ASSERT_TRUE(pass.has_value());
  EXPECT_EQ(pass->metric, "cosine");
  EXPECT_EQ(pass->share, 0.5);
  const auto fail = bounds.Decided(RowWith(v1::FAIL, 1, -9));
  ASSERT_TRUE(fail.has_value());
  EXPECT_EQ(fail->metric, "nl2");
  EXPECT_EQ(fail->share, 2);
}

TEST(BoundShareTest, TheVerdictOutweighsTheBounds) {
  const Bounds bounds(TwoBounds(), {});
  // The bounds are combined with `or`.
  EXPECT_EQ(bounds.Decided(RowWith(v1::PASS, 5, 1))->share, 1);
  // A count that must be 0.
  EXPECT_FALSE(bounds.Decided(RowWith(v1::FAIL, 0.1, 1)).has_value());
  EXPECT_FALSE(bounds.Decided(RowWith(v1::SKIPPED, 5, 1)).has_value());
  v1::ComparisonRow other = RowWith(v1::PASS, 5, 1);
  other.set_predicate("other");
  EXPECT_FALSE(bounds.Decided(other).has_value());
}

TEST(BoundShareTest, OfTwoElementTolerancesTheKinderOneCounts) {
  const Bounds bounds(v1::Comparison(), {});
  v1::ComparisonRow row;
  row.set_verdict(v1::PASS);
  row.set_atol(0.5);
  row.set_rtol(0.5);
  const auto add = [&row](const char* name, double value) {
    v1::MetricValue& metric = *row.add_metrics();
    metric.set_metric(name);
    metric.set_value(value);
  };
  add("atol_needed", 0.25);
  add("rtol_needed", kInf);
  const auto decided = bounds.Decided(row);
  ASSERT_TRUE(decided.has_value());
  EXPECT_EQ(decided->metric, "atol_needed");
  EXPECT_EQ(decided->share, 0.5);
}

}  // namespace
}  // namespace msitd
