// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/report/table/sinks.h"
#include "client/ask/text/ignored_reason.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_advice.h"
#include "client/foreign/report/msprobe_verdict.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();

MsprobeRules RulesOf(const std::string& yaml) {
  auto rules = ReadMsprobeRules(yaml, DefaultMsprobeRules());
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *std::move(rules) : DefaultMsprobeRules();
}

MsprobeStatistic StatisticOf(double value) {
  using Kind = MsprobeStatistic::Kind;
  const Kind kind = std::isnan(value)   ? Kind::kNan
                    : std::isinf(value) ? Kind::kInfinity
                                        : Kind::kNumber;
  return {kind, std::isnan(value) ? 0 : value, ask::Real{value}};
}

// Returns a row whose maximum, minimum, mean and norm have these values.
MsprobeRow RowOf(const std::string& part, double target, double golden) {
  MsprobeRow row;
  row.name = "Functional.relu.0.forward." + part + ".0";
  row.is_matched = true;
  row.target.fill(StatisticOf(target));
  row.golden.fill(StatisticOf(golden));
  return row;
}

// Returns a row of tensors with this largest difference, share within 1 ‰, and
// cosine.
MsprobeRow MeasuredRow(const std::string& part, double max_abs, double share,
                       double cosine) {
  MsprobeRow row = RowOf(part, 1, 1);
  row.max_abs = max_abs;
  row.within_1_permille = share;
  row.cosine = cosine;
  return row;
}

TEST(MsprobeRulesTest, UsualThresholdsAreThoseOfMsprobe) {
  const MsprobeRules& rules = DefaultMsprobeRules();
  EXPECT_EQ(rules.result.ratio_output_below, 0.1);
  EXPECT_EQ(rules.result.ignored.size(), 9u);
  EXPECT_THAT(rules.result.inputs_ignored,
              ElementsAre("_reduce_scatter_base", "_all_gather_base",
                          "all_to_all_single", "batch_isend_irecv"));
  EXPECT_EQ(RulesOf("").result.cosine_fall_above, 0.1);
}

TEST(MsprobeRulesTest, FilesChangeSomeRules) {
  const MsprobeRules rules = RulesOf(
      "result:\n  ratio_drop: {output_below: 0.6}\n  ignored: [relu]\n"
      "accuracy: {}\n");
  EXPECT_EQ(rules.result.ratio_output_below, 0.6);
  EXPECT_EQ(rules.result.ratio_input_above, 0.9);
  EXPECT_THAT(rules.result.ignored, ElementsAre("relu"));
}

TEST(MsprobeRulesTest, WhatIsNoRuleIsRefusedWithItsLine) {
  const auto error = [](const char* yaml) {
    const auto rules = ReadMsprobeRules(yaml, DefaultMsprobeRules());
    EXPECT_FALSE(rules.ok()) << yaml;
    return std::string(Message(rules.status()));
  };
  EXPECT_THAT(error("accuracy:\n  ratio: {}\n"),
              HasSubstr("line 2: \"accuracy.ratio\" is not a rule"));
  EXPECT_THAT(error("result: {ratio_drop: {output_below: 10%}}"),
              HasSubstr("result.ratio_drop.output_below is not a number"));
  EXPECT_THAT(error("accuracy: {cosine: {below: nan}}"),
              HasSubstr("is not a number"));
  EXPECT_THAT(error("accuracy: {cosine: {below: [1]}}"),
              HasSubstr("is not a number"));
  EXPECT_THAT(error("result: {ignored: to}"), HasSubstr("is not a list"));
  EXPECT_THAT(error("result: {ignored: [[to]]}"),
              HasSubstr("has an element that is not a name"));
  EXPECT_THAT(error("result: 1"), HasSubstr("\"result\" is not a rule"));
  EXPECT_THAT(error("- a"), HasSubstr("is not a rule"));
}

TEST(MsprobeRulesTest, ThresholdsJudge) {
  const std::vector<MsprobeRow> rows = {MeasuredRow("input", 0, 0.95, 1),
                                        MeasuredRow("output", 0, 0.5, 1)};
  const auto result = [&rows](const MsprobeRules& rules) {
    return JudgeEntry(rows, MsprobeMode::kAll, rules)[1];
  };
  EXPECT_EQ(result(DefaultMsprobeRules()).result, "pass");
  const auto stricter =
      result(RulesOf("result: {ratio_drop: {output_below: 0.6}}"));
  EXPECT_EQ(stricter.result, "error");
  EXPECT_THAT(stricter.messages, HasSubstr("below 0.6"));
  EXPECT_EQ(result(RulesOf("result: {ratio_drop: {output_below: 0.6}, "
                           "ignored: [relu]}"))
                .result,
            "pass");
}

TEST(MsprobeAdviceTest, FailuresAreThoseOfEarlyReleases) {
  const MsprobeRules& rules = DefaultMsprobeRules();
  const auto is_off = [&rules](double max_abs, double cosine) {
    return IsInaccurate(MeasuredRow("output", max_abs, 1, cosine),
                        MsprobeMode::kAll, rules);
  };
  EXPECT_FALSE(is_off(0.5, 0.995));
  EXPECT_TRUE(is_off(0.5, 0.98));
  EXPECT_FALSE(is_off(0.0005, 0.98));
  EXPECT_TRUE(is_off(0.0005, 0.89));
  EXPECT_TRUE(is_off(1.5, 1));
  const auto is_statistics_off = [&rules](double target, double golden) {
    return IsInaccurate(RowOf("output", target, golden), MsprobeMode::kSummary,
                        rules);
  };
  EXPECT_TRUE(is_statistics_off(1, 2.1));
  EXPECT_FALSE(is_statistics_off(1, 1.9));
  EXPECT_FALSE(is_statistics_off(0, 0));
  EXPECT_FALSE(is_statistics_off(NAN, NAN));
  EXPECT_TRUE(is_statistics_off(kInf, -kInf));
  MsprobeRow alone = MeasuredRow("output", 9, 0, 0);
  alone.is_matched = false;
  EXPECT_FALSE(IsInaccurate(alone, MsprobeMode::kAll, rules));
}

TEST(MsprobeAdviceTest, AdviceDependsOnTheLeaf) {
  const MsprobeRules& rules = DefaultMsprobeRules();
  EXPECT_THAT(AdviceFor("Torch.add.0.forward.input.0", rules),
              HasSubstr("input of the call"));
  EXPECT_THAT(AdviceFor("Torch.add.0.forward.output.0", rules),
              HasSubstr("forward computation"));
  EXPECT_THAT(AdviceFor("Torch.add.0.backward.input.0", rules),
              HasSubstr("incoming gradient"));
  EXPECT_THAT(AdviceFor("Torch.add.0.backward.output.0", rules),
              HasSubstr("backward computation"));
  for (const char* op :
       {"conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm"}) {
    EXPECT_THAT(
        AdviceFor(std::string("F.") + op + ".0.forward.output.0", rules),
        HasSubstr("seed_all"));
    EXPECT_THAT(AdviceFor(std::string("F.") + op + ".0.forward.input.0", rules),
                Not(HasSubstr("seed_all")));
  }
  EXPECT_THAT(AdviceFor("Functional.batch_norm.0.forward.input.1", rules),
              HasSubstr("running statistics"));
}

// Returns a row that exists only in the target and is ignored because of a
// table of receive buffers.
v1::ComparisonRow IgnoredRow() {
  v1::ComparisonRow row;
  row.set_op("Distributed.irecv");
  row.set_io(v1::IO_INPUT);
  row.set_index("0");
  row.set_verdict(v1::SKIPPED);
  row.set_reason("not in the golden run; " + std::string(ask::kIgnoredReason));
  row.mutable_target()->set_name("t/0/cpu/0/Distributed.irecv/0/input/0");
  row.mutable_target()->set_dtype(v1::D_TYPE_FLOAT32);
  row.mutable_target()->add_shape(2);
  return row;
}

TEST(MsprobeReportTest, IgnoredRowsAreNoPass) {
  std::string out;
  const auto writer =
      ask::MakeTableReport(MakeMsprobeSchema({.mode = MsprobeMode::kSummary}),
                           ask::MakeCsvSink([&out](std::string_view bytes) {
                             out += bytes;
                             return absl::OkStatus();
                           }));
  ASSERT_TRUE(writer->Begin(v1::Comparison()).ok());
  ASSERT_TRUE(writer->Add(IgnoredRow()).ok());
  const auto note = writer->Finish();
  ASSERT_TRUE(note.ok());
  EXPECT_EQ(*note, "1 rows are ignored: receive buffers and scratch memory");
  EXPECT_THAT(out, HasSubstr(",ignored,[]\n"));
}

TEST(MsprobeReportTest, AdviceOfNoFailureSaysSo) {
  std::string out;
  const auto writer = MakeAdviceReport({.mode = MsprobeMode::kMd5},
                                       [&out](std::string_view bytes) {
                                         out += bytes;
                                         return absl::OkStatus();
                                       });
  ASSERT_TRUE(writer->Begin(v1::Comparison()).ok());
  ASSERT_TRUE(writer->Add(IgnoredRow()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(out, HasSubstr("Suspect Nodes: NA\n"));
}

TEST(HtmlSinkTest, TextIsText) {
  std::string out;
  const auto table = ask::MakeHtmlSink([&out](std::string_view bytes) {
    out += bytes;
    return absl::OkStatus();
  });
  ASSERT_TRUE(table->Begin({"a<b", "c"}).ok());
  ASSERT_TRUE(table->Add({std::string("<script>\"&"), int64_t{1}}).ok());
  ASSERT_TRUE(table->Add({ask::Cell(), ask::Cell()}).ok());
  ASSERT_TRUE(table->Finish().ok());
  EXPECT_THAT(out, HasSubstr("<th>a&lt;b<th>c\n"));
  EXPECT_THAT(out, HasSubstr("<tr><td>&lt;script&gt;&quot;&amp;<td>1\n"
                             "<tr><td><td>\n</tbody>"));
  EXPECT_THAT(out, HasSubstr("default-src 'none'"));
}

}  // namespace
}  // namespace msitd::report
