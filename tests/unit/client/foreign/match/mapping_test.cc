// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/foreign/match/match.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/utf8.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MappingTest, OpsThatBelongTogetherAsAWholeHaveOneLine) {
  const RunFacts golden = RunBuilder("").Op("a", {1}, {1}).Build();
  const RunFacts target =
      RunBuilder("").Op("A", {1}, {1}).Op("B", {1}, {1}).Build();
  MappingBuilder builder(golden, target);
  EXPECT_TRUE(builder.Pair({0, 0}, {0, 0}, "why"));
  EXPECT_TRUE(builder.Pair({0, 1}, {0, 1}, "why"));
  EXPECT_FALSE(builder.Pair({0, 0}, {0, 1}, "again"));
  EXPECT_TRUE(builder.Pair({0, 1}, {1, 0}, "crossed"));
  const auto mapping = builder.Finish({"g"}, {"t"});
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mapping->pair_count, 3u);
  EXPECT_THAT(PairsOf(*mapping), ElementsAre("A=a", "B.input.0=a.output.0"));
  EXPECT_THAT(LeftOf(*mapping), ElementsAre("target 1: t (lacks)"));
}

TEST(MappingTest, WhatIsLeftHasTheFirstReason) {
  const RunFacts golden = RunBuilder("").Op("a", {1}, {1}).Build();
  const RunFacts target = RunBuilder("").Op("A", {1}, {1}).Build();
  MappingBuilder builder(golden, target);
  builder.LeaveGoldenOp(0, {"fused", true}, "into A");
  builder.LeaveGolden({0, 0}, {"another"});
  builder.PairWithAbsent({0, 0}, {.op = "b", .io = Io::kInput, .index = "0"},
                         "not there");
  builder.LeaveTarget({0, 0}, {"no reason"});
  const auto mapping = builder.Finish({"g"}, {"t"});
  ASSERT_TRUE(mapping.ok());
  EXPECT_THAT(PairsOf(*mapping), ElementsAre("A.input.0=b.input.0", "=a"));
  EXPECT_EQ(mapping->lines[1].reason, "fused: into A");
  EXPECT_THAT(LeftOf(*mapping),
              ElementsAre("target 1: not there (lacks)", "target 1: t (lacks)",
                          "golden 2: fused"));
}

TEST(MappingTest, OnlyWhatIsExpectedHasALineWithOneSide) {
  const RunFacts golden =
      RunBuilder("").Op("a", {1}, {1}).Op("b", {1}, {1}).Build();
  const RunFacts target =
      RunBuilder("").Op("A", {1}, {1}).Op("B", {1}, {1}).Build();
  MappingBuilder builder(golden, target);
  builder.LeaveGolden({0, 0}, {"by design", true});
  builder.LeaveGoldenOp(0, {"missing"});
  builder.LeaveGoldenOp(1, {"missing"});
  builder.LeaveTarget({0, 0}, {"missing"});
  builder.LeaveTargetOp(0, {"by design", true});
  const auto mapping = builder.Finish({"g"}, {"t", true});
  ASSERT_TRUE(mapping.ok());
  EXPECT_THAT(PairsOf(*mapping),
              ElementsAre("A.output.0=", "B=", "=a.input.0"));
  EXPECT_THAT(LeftOf(*mapping),
              ElementsAre("target 1: missing (lacks)", "target 1: by design",
                          "target 2: t", "golden 1: by design",
                          "golden 3: missing (lacks)"));
}

TEST(MappingTest, LinesFitWhateverTheReason) {
  Line line;
  line.target =
      Reference{.op = "a\"\n", .io = Io::kOutput, .index = "0", .call = 2};
  for (int i = 0; i < 200; ++i) line.reason += "\xc3\xa9";
  const std::string text = ToText(line);
  EXPECT_LE(text.size(), kMappingLineBytesMax);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_THAT(text, HasSubstr(R"("op":"a\"\n")"));
  EXPECT_THAT(text, HasSubstr(R"("call":2)"));
  EXPECT_THAT(text, Not(HasSubstr("golden")));
}

TEST(MappingTest, ReasonsMayHoldNamesThatNobodyHasChecked) {
  Line line;
  line.target = Reference{"a"};
  line.reason = "input of \xff in it";
  EXPECT_THAT(ToText(line), HasSubstr("input of ? in it"));
}

TEST(MatchTest, SourcesChooseTheMatcher) {
  EXPECT_EQ(ChooseMatcher("fx", "ge", false), Matcher::kGeFx);
  EXPECT_EQ(ChooseMatcher("ge", "fx", false), Matcher::kGeFx);
  EXPECT_EQ(ChooseMatcher("ge", "ge", false), Matcher::kGeGe);
  EXPECT_EQ(ChooseMatcher("ge", "ge", true), Matcher::kGeSelf);
  EXPECT_EQ(ChooseMatcher("msit", "mindie", false), Matcher::kMindie);
  EXPECT_EQ(ChooseMatcher("", "mindie", false), Matcher::kMindie);
  EXPECT_EQ(ChooseMatcher("msit", "atb", false), Matcher::kTorchAtb);
  EXPECT_EQ(ChooseMatcher("atb", "atb", false), Matcher::kTorchAtb);
  EXPECT_EQ(ChooseMatcher("msit", "msit", false), Matcher::kTorch);
  EXPECT_EQ(ChooseMatcher("msit", "msit", true), std::nullopt);
  EXPECT_EQ(ChooseMatcher("msit", "", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("", "", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("fx", "fx", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("msprobe", "msprobe", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("msit", "msit", true), std::nullopt);
}

// Returns a run of the source that each matcher expects, with one op and all
// files.
RunFacts RunOf(const std::string& source, bool is_empty) {
  RunBuilder out(source);
  if (!is_empty) out.Op("A", {1}, {1});
  return out
      .File("dynamo_original_graph_1.txt",
            R"(op { name: "A" output_desc { attr { key: "_fx_tensor_name" )"
            R"(value { s: "A.OUTPUT.0" } } } })")
      .File("mindie_rt_op_mapping.json", R"([{"id": 1, "rt_layer": "L",
             "ge_op": "A", "fusion_op": "A"}])")
      .File("mindie_torch_op_mapping.json", R"([{"rt_layer": "L",
             "jit_node": "x, scope: __module.A # f"}])")
      .File("model/M.json", R"({"modelName": "M", "nodes": [
             {"opName": "A_0", "opType": "A"}]})")
      .Build();
}

TEST(MatchTest, RunWithoutTensorsLacksThoseOfTheOther) {
  struct Case {
    Matcher matcher;
    std::string golden;
    std::string target;
  };
  const std::vector<Case> cases = {
      {Matcher::kGeFx, "fx", "ge"},     {Matcher::kGeFx, "ge", "fx"},
      {Matcher::kGeGe, "ge", "ge"},     {Matcher::kMindie, "", "mindie"},
      {Matcher::kMindie, "mindie", ""}, {Matcher::kTorchAtb, "", "atb"},
      {Matcher::kTorchAtb, "atb", ""},  {Matcher::kTorchAtb, "atb", "atb"},
  };
  for (const bool is_compat : {false, true}) {
    for (const Case& one : cases) {
      SCOPED_TRACE(one.golden + " beside " + one.target);
      for (const auto& [no_golden, no_target] :
           {std::pair(true, false), {false, true}, {true, true}}) {
        const auto mapping =
            Match(one.matcher, RunOf(one.golden, no_golden),
                  RunOf(one.target, no_target), {.is_compat = is_compat});
        ASSERT_TRUE(mapping.ok()) << mapping.status();
        EXPECT_EQ(mapping->pair_count, 0u);
        if (one.matcher == Matcher::kTorchAtb) continue;
        for (const LeftTensors& left : mapping->left) {
          EXPECT_FALSE(left.is_expected) << left.reason;
        }
      }
    }
  }
  const RunFacts empty = RunOf("ge", true);
  EXPECT_TRUE(Match(Matcher::kGeSelf, empty, empty, {}).ok());
}

TEST(MatchTest, WhatIsLeftIsCountedInRecordsToo) {
  const auto run = [](int32_t call_count) {
    RunBuilder out("msprobe");
    out.Op("Torch.add", {1}, {1}).Op("Torch.add", {1}, {1}, 1);
    for (int32_t i = 0; i < call_count; ++i) out.Op("Torch.mul", {1}, {1}, i);
    return out.Build();
  };
  const auto mapping = Match(Matcher::kMsprobe, run(3), run(0), {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->pair_count, 2u);
  ASSERT_EQ(mapping->left.size(), 1u);
  EXPECT_EQ(mapping->left[0].count, 2u);
  EXPECT_EQ(mapping->left[0].record_count, 6u);
  EXPECT_EQ(RecordsText(2, 6), " (6 records)");
  EXPECT_EQ(RecordsText(2, 2), "");
}

TEST(MatchTest, WhatTheTargetLacksIsNoPairThatIsTaken) {
  const std::string same = R"(output_desc { attr { key: "_fx_tensor_name" )"
                           R"(value { s: "n.OUTPUT.0" } } } })";
  const RunFacts golden =
      RunBuilder("ge")
          .Op("A", {}, {1})
          .Op("B", {}, {1})
          .File("dynamo_original_graph_1.txt",
                "op { name: \"A\" " + same + "op { name: \"B\" " + same)
          .Build();
  const RunFacts target = RunBuilder("fx").Op("m", {}, {1}).Build();
  const auto mapping = Match(Matcher::kGeFx, golden, target, {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->pair_count, 0u);
  EXPECT_THAT(PairsOf(*mapping), ElementsAre("n.output.0=A.output.0"));
  EXPECT_THAT(LeftOf(*mapping),
              ElementsAre("golden 2: the FX node was not recorded (lacks)",
                          "target 1: the graph names no GE op for it (lacks)"));
}

// Two GE ops belong to one FX tensor, which is the target. Whole ops and single
// tensors give the same result.
TEST(MatchTest, ATargetOfTwoGoldensHasTheFirst) {
  const auto op = [](const std::string& name) {
    return "op { name: \"" + name + "\" input: \"x:0\" " +
           R"(output_desc { attr { key: "_fx_tensor_name" )"
           R"(value { s: "n.OUTPUT.0" } } } })";
  };
  const std::string graph = op("A") + op("B");
  const RunFacts fx = RunBuilder("fx").Op("n", {4}, {4}).Build();
  const auto match = [&](const std::vector<int64_t>& first,
                         const std::vector<int64_t>& second) {
    const RunFacts ge = RunBuilder("ge")
                            .Op("A", first, {4})
                            .Op("B", second, {4})
                            .File("dynamo_original_graph_1.txt", graph)
                            .Build();
    const auto mapping = Match(Matcher::kGeFx, ge, fx, {});
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    return mapping.ok() ? *mapping : Mapping();
  };
  // The second golden op has only an output.
  Mapping mapping = match({4}, {});
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("n.input.0=A.input.0", "n.output.0=A.output.0",
                          "=B.output.0"));
  EXPECT_EQ(mapping.pair_count, 2u);
  // Here, the first golden op has only an output.
  mapping = match({}, {4});
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("n.output.0=A.output.0", "n.input.0=B.input.0",
                          "=B.output.0"));
  EXPECT_EQ(mapping.pair_count, 2u);
  EXPECT_THAT(LeftOf(mapping),
              ElementsAre("golden 1: its counterpart already has another one"));
}

TEST(MatchTest, NamesAreReadAsTheyAreWritten) {
  for (const Matcher matcher : AllMatchers()) {
    EXPECT_EQ(ParseMatcher(MatcherName(matcher)), matcher);
  }
  EXPECT_EQ(ParseMatcher("auto"), std::nullopt);
}

TEST(MatchTest, OnlyFilesOfMatchersAreWanted) {
  EXPECT_TRUE(IsWanted("dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"));
  EXPECT_FALSE(IsWanted("dynamo_optimized_graph_1_rank_0_pid_1_ts_2.txt"));
  EXPECT_TRUE(IsWanted("mindie_rt_op_mapping.json"));
  EXPECT_TRUE(IsWanted("mindie_torch_op_mapping.json"));
  EXPECT_TRUE(IsWanted("model/Llama.json"));
  EXPECT_TRUE(IsWanted("model_tree.json"));
  EXPECT_TRUE(IsWanted("module_tree.json"));
}

}  // namespace
}  // namespace msitd::match
