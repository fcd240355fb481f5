// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/metric_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace msitd::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricPageTest, AMetricHasItsHelpAndTypeOnce) {
  MetricPage page;
  page.Add(MetricId::kStorageState, "ok", 1);
  page.Add(MetricId::kStorageState, "full", 0);
  page.Add(MetricId::kOpenStreams, 3);
  EXPECT_EQ(page.text(),
            "# HELP msitd_storage_state 1 for the current state of the "
            "storage, 0 for the others.\n"
            "# TYPE msitd_storage_state gauge\n"
            "msitd_storage_state{state=\"ok\"} 1\n"
            "msitd_storage_state{state=\"full\"} 0\n"
            "# HELP msitd_open_streams Open streams of producers.\n"
            "# TYPE msitd_open_streams gauge\n"
            "msitd_open_streams 3\n");
}

TEST(MetricPageTest, LabelsMayHoldAnything) {
  MetricPage page;
  page.Add(MetricId::kRefusedChunks, "a\"b\\c\nd", 1);
  EXPECT_THAT(page.text(), HasSubstr("{reason=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(MetricPageTest, CountsKeepAllTheirDigits) {
  MetricPage page;
  page.Add(MetricId::kIngestBytes, static_cast<double>((int64_t{1} << 53) - 1));
  EXPECT_THAT(page.text(), HasSubstr(" 9007199254740991\n"));
}

TEST(MetricPageTest, AHistogramEndsWithAllThatWasCounted) {
  Latencies latencies;
  latencies.Add(std::chrono::milliseconds(1));
  latencies.Add(std::chrono::hours(1));
  MetricPage page;
  page.Add(MetricId::kAckLatency, latencies.Read());
  page.Add(MetricId::kCallLatency, "query", latencies.Read());
  EXPECT_THAT(page.text(), HasSubstr("msitd_ack_seconds_bucket{le=\"0.0005\"} "
                                     "0\n"
                                     "msitd_ack_seconds_bucket{le=\"0.001\"} "
                                     "1\n"));
  EXPECT_THAT(page.text(), HasSubstr("msitd_ack_seconds_bucket{le=\"+Inf\"} 2\n"
                                     "msitd_ack_seconds_sum 3600.0010000000002"
                                     "\nmsitd_ack_seconds_count 2\n"));
  EXPECT_THAT(
      page.text(),
      HasSubstr("msitd_call_seconds_bucket{pool=\"query\",le=\"60\"} 1\n"));
  EXPECT_THAT(page.text(),
              HasSubstr("msitd_call_seconds_count{pool=\"query\"} 2\n"));
}

TEST(MetricCatalogTest, NamesAreUniqueAndSayWhatTheyAre) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : MetricCatalog()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.name.ends_with("_total"), info.kind == MetricKind::kCounter)
        << info.name;
    EXPECT_THAT(std::string(info.help), Not(HasSubstr("\n"))) << info.name;
    EXPECT_FALSE(info.help.ends_with(".")) << info.name;
  }
}

}  // namespace
}  // namespace msitd::metrics
