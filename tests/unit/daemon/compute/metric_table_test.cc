// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/metric_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "tests/unit/daemon/compute/metric_info.h"

namespace msitd::compute {
namespace {

TEST(MetricTableTest, RowsAreInTheOrderOfTheEnums) {
  EXPECT_EQ(InfoOf(Metric::kCosine).name, "cosine");
  EXPECT_EQ(InfoOf(Metric::kSqnrDb).name, "sqnr_db");
  EXPECT_EQ(InfoOf(Metric::kL2Distance).name, "l2_distance");
  EXPECT_EQ(InfoOf(ElementMetric::kOutlierCount).name, "outlier_count");
  EXPECT_EQ(InfoOf(ElementMetric::kPearson).name, "pearson");
  EXPECT_EQ(InfoOf(ElementMetric::kMsprobeWithin5Permille).name,
            "msprobe_within_5_permille");
}

TEST(MetricTableTest, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : MetricTable()) names.insert(info.name);
  EXPECT_EQ(names.size(), MetricTable().size());
}

TEST(MetricTableTest, FamilyAndSetAgree) {
  for (const MetricInfo& info : MetricTable()) {
    EXPECT_EQ(info.set != 0, info.family == MetricFamily::kElement)
        << info.name;
  }
}

// A higher count, distance or duration is never better.
TEST(MetricTableTest, OnlyRatiosAndDecibelsAreBetterTheHigher) {
  for (const MetricInfo& info : MetricTable()) {
    if (!info.higher_is_better) continue;
    EXPECT_TRUE(info.unit.empty() || info.unit == "dB") << info.name;
  }
  EXPECT_TRUE(InfoOf(Metric::kCosine).higher_is_better);
  EXPECT_TRUE(InfoOf(ElementMetric::kMsprobeCosine).higher_is_better);
  EXPECT_FALSE(InfoOf(Metric::kNl2).higher_is_better);
}

}  // namespace
}  // namespace msitd::compute
