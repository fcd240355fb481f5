// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "client/ask/report/page/report_page.h"
#include "client/ask/report/page/row_histograms.h"
#include "protos/base/resource_name.h"

namespace msitd::ask {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(HtmlReportTest, ThePageHasOnePlaceForItsData) {
  const std::string_view page = ReportPage();
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  const size_t place = page.find("%DATA%");
  ASSERT_NE(place, std::string_view::npos);
  EXPECT_EQ(page.find("%DATA%", place + 1), std::string_view::npos);
}

v1::Metric MetricNamed(const std::string& name) {
  v1::Metric metric;
  metric.set_name(name);
  return metric;
}

// Returns the page of a comparison with one row.
std::string PageOf(PageFacts facts, const v1::Comparison& comparison,
                   const v1::ComparisonRow& row) {
  std::string out;
  const RowHistograms histograms(0);
  const auto writer = MakeHtmlReport(std::move(facts), histograms,
                                     [&out](std::string_view bytes) {
                                       out += bytes;
                                       return absl::OkStatus();
                                     });
  EXPECT_TRUE(writer->Begin(comparison).ok());
  EXPECT_TRUE(writer->Add(row).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return out;
}

// Parses the data of a page.
Json DataOf(const std::string& page) {
  constexpr std::string_view kStart = "id=\"data\">";
  const size_t start = page.find(kStart) + kStart.size();
  return Json::parse(page.substr(start, page.find("</script>", start) - start));
}

TEST(HtmlReportTest, NoTextEndsTheData) {
  v1::Comparison comparison;
  comparison.set_golden_run("</script>");
  v1::ComparisonRow row;
  row.set_op("</script>\n\"\\");
  v1::MetricValue* metric = row.add_metrics();
  metric->set_metric("nl2");
  metric->set_value(kInf);
  const std::string page =
      PageOf({{MetricNamed("nl2")}, {}, {}}, comparison, row);
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\n\\\"\\\\"));
  EXPECT_THAT(page, HasSubstr(",\"inf\","));
  size_t ends = 0;
  for (size_t at = page.find("</script>"); at != std::string::npos;
       at = page.find("</script>", at + 1)) {
    ++ends;
  }
  EXPECT_EQ(ends, 2u);
  const Json data = DataOf(page);
  EXPECT_EQ(data["texts"][data["rows"][0][3].get<int>()], row.op());
}

TEST(HtmlReportTest, TheTitleIsTheFinding) {
  v1::Comparison comparison;
  comparison.set_name("c-000001");
  comparison.set_golden_run("a<b>");
  comparison.set_target_run("%DATA%");
  comparison.set_state(v1::Comparison::DONE);
  comparison.set_pass_count(1);
  comparison.set_fail_count(2);
  comparison.mutable_first_divergence()->set_op("head");
  const std::string page = PageOf({}, comparison, v1::ComparisonRow());
  const std::string finding =
      "%DATA% differs from a&lt;b&gt; from head on (rank 0, token 0). 2 of 3 "
      "tensors fail.";
  EXPECT_THAT(page, HasSubstr("<title>" + finding + "</title>"));
  EXPECT_THAT(page, HasSubstr("<main>\n<h1>" + finding + "</h1>"));
  EXPECT_EQ(DataOf(page)["comparison"]["name"], "c-000001");
  comparison.set_state(v1::Comparison::CANCELLED);
  EXPECT_THAT(PageOf({}, comparison, v1::ComparisonRow()),
              HasSubstr("Comparison c-000001 of %DATA% with a&lt;b&gt; has no "
                        "result: cancelled."));
}

TEST(HtmlReportTest, TheDaemonSaysWhichMetricsAreBetterTheHigher) {
  v1::Metric closeness = MetricNamed("closeness");
  closeness.set_direction(v1::Metric::HIGHER_IS_BETTER);
  v1::Metric gain = MetricNamed("gain");
  gain.set_direction(v1::Metric::HIGHER_IS_BETTER);
  gain.set_unit("dB");
  const std::string page =
      PageOf({{closeness, gain, MetricNamed("nl2")}, {}, {}}, v1::Comparison(),
             v1::ComparisonRow());
  EXPECT_THAT(page, HasSubstr("{\"metrics\":[\"closeness\",\"gain\",\"nl2\"],"
                              "\"higher\":[true,true,false],"
                              "\"units\":[\"\",\"dB\",\"\"],"));
}

TEST(HtmlReportTest, ARowHasWhatDecidedAndWhichSideIsNotFinite) {
  v1::Comparison comparison;
  v1::RequiredTolerance& needed = *comparison.add_required_tolerances();
  needed.set_predicate("nl2 <= 0.5");
  needed.set_metric("nl2");
  needed.set_bound(0.5);
  v1::ComparisonRow row;
  row.set_verdict(v1::FAIL);
  row.set_predicate("nl2 <= 0.5");
  row.mutable_target()->set_nan_count(1);
  v1::MetricValue* metric = row.add_metrics();
  metric->set_metric("nl2");
  metric->set_value(1);
  const Json data = DataOf(PageOf(
      {{MetricNamed("cosine"), MetricNamed("nl2")}, {}, {}}, comparison, row));
  EXPECT_EQ(data["bounds"], Json::parse(R"([["nl2", 0.5]])"));
  const Json& cells = data["rows"][0];
  EXPECT_EQ(cells[13], 1);    // NaN in the target.
  EXPECT_EQ(cells[14], 1);    // nl2.
  EXPECT_EQ(cells[15], 2.0);  // Twice its bound.
  EXPECT_EQ(cells[16], nullptr);
  EXPECT_EQ(cells[17], 1.0);
}

TEST(HtmlReportTest, ReasonsThatNameDifferentRunsAreNotAlike) {
  v1::Comparison comparison;
  comparison.set_golden_run("tp1");
  comparison.set_target_run("tp2");
  const auto alike = [&comparison](const std::string& reason) {
    v1::ComparisonRow row;
    row.set_verdict(v1::UNMATCHED);
    row.set_reason(reason);
    const Json data = DataOf(PageOf({}, comparison, row));
    // The ranks and the shards follow.
    const Json& cells = data["rows"][0];
    return data["texts"][cells[cells.size() - 3].get<int>()].get<std::string>();
  };
  EXPECT_NE(alike("only in run tp1"), alike("only in run tp2"));
  EXPECT_EQ(alike("only in run tp1; run tp2 lacks rank 3"),
            alike("only in run tp1; run tp2 lacks rank 5"));
}

TEST(HtmlReportTest, TargetsOfOtherNamesAreSaidAndWhy) {
  const auto pairing_of = [](const v1::ComparisonRow& row) {
    const Json data = DataOf(PageOf({}, v1::Comparison(), row));
    const Json& cells = data["rows"][0];
    // The reason without its numbers, the ranks and the shards follow.
    return data["texts"][cells[cells.size() - 4].get<int>()];
  };
  v1::ComparisonRow row;
  row.set_op("conv");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  EXPECT_EQ(pairing_of(row), "");
  row.mutable_golden();
  TensorKey target;
  target.run = "t";
  target.op = "conv";
  target.device = "cpu:0";
  target.io = Io::kOutput;
  target.index = "0";
  row.mutable_target()->set_name(FormatTensorName(target));
  EXPECT_EQ(pairing_of(row), "");
  target.op = "a/Conv2D";
  row.mutable_target()->set_name(FormatTensorName(target));
  EXPECT_EQ(pairing_of(row), "a/Conv2D output/0");
  target.call = 3;
  row.mutable_target()->set_name(FormatTensorName(target));
  row.set_pairing("fused");
  EXPECT_EQ(pairing_of(row), "a/Conv2D output/0, call 3: fused");
}

// Returns the text of the fact with this label.
std::string FactOf(const Json& facts, const std::string& label) {
  for (const Json& fact : facts) {
    if (fact[0] == label) return fact[1];
  }
  return "none";
}

TEST(HtmlReportTest, TheHeaderTellsTheStory) {
  v1::Comparison comparison;
  comparison.set_golden_run("gold");
  comparison.set_target_run("tp8");
  comparison.set_fail_count(1);
  comparison.set_unmatched_count(3);
  comparison.set_for_want_of_ranks_count(1);
  comparison.set_skipped_count(2);
  comparison.mutable_create_time()->set_seconds(1700000000);
  comparison.mutable_policy()->set_preset(v1::Policy::TORCH);
  v1::Policy::Rule& rule = *comparison.mutable_policy()->add_rules();
  rule.set_op_pattern("head*");
  rule.set_rtol(0.5);
  comparison.set_partial(true);
  v1::RunRanks& ranks = *comparison.mutable_target_ranks();
  ranks.set_partial(true);
  ranks.add_ranks_lacking()->set_first(1);
  comparison.mutable_first_divergence()->set_op("head");
  comparison.mutable_first_divergence()->set_row(7);
  PageFacts facts;
  facts.target.emplace();
  facts.target->set_world_size(8);
  facts.target->set_state(v1::Run::ACTIVE);
  (*facts.target->mutable_labels())["model"] = "llama";
  const Json data = DataOf(PageOf(facts, comparison, v1::ComparisonRow()));
  const Json& found = data["comparison"]["facts"];
  EXPECT_EQ(found[0][0], "partial");
  EXPECT_EQ(found[1][0], "first divergence");
  EXPECT_EQ(found[1][2], 7);
  EXPECT_EQ(FactOf(found, "not fully compared"),
            "3 unmatched (1 for lack of ranks), 2 skipped");
  const Json& setup = data["comparison"]["setup"];
  EXPECT_EQ(FactOf(setup, "golden"), "gold; deleted");
  EXPECT_EQ(FactOf(setup, "target"),
            "tp8; world size 8; not sealed; model=llama");
  EXPECT_THAT(FactOf(setup, "comparison"), HasSubstr("2023-11-14T22:13:20Z"));
  EXPECT_EQ(FactOf(setup, "policy"), "rule head*: rtol=0.5");
}

}  // namespace
}  // namespace msitd::ask
