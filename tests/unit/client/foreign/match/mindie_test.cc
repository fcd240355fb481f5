// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/mindie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protos/status/status.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr char kRtFile[] = "mindie_rt_op_mapping.json";
constexpr char kTorchFile[] = "mindie_torch_op_mapping.json";

// The entries are not sorted. The third one has no fusion_op.
constexpr char kRt[] = R"([
  {"id": 5, "rt_layer": "ACT_6", "ge_op": "Conv_5", "fusion_op": "Conv_5Relu_8"},
  {"id": 4, "rt_layer": "CONV_5", "ge_op": "Conv_5", "fusion_op": "Conv_5Relu_8"},
  {"id": 9, "rt_layer": "SPLIT_7", "ge_op": "Split_7", "fusion_ops": []},
  {"id": 10, "rt_layer": "LOST_1", "ge_op": "Lost_1"}])";

constexpr char kJit[] = R"([
  {"jit_node": "%i : Float(1) = aten::_convolution(%x), scope: __module.a/__module.a.conv # f.py:4:0", "rt_layer": "CONV_5"},
  {"jit_node": "%o : Float(1) = aten::relu(%i), scope: __module.a/__module.a.relu # f.py:9:0", "rt_layer": "ACT_6"},
  {"jit_node": "%s = aten::split(%o), scope: __module.split   # f.py:1:0", "rt_layer": "SPLIT_7"}])";

constexpr char kFx[] = R"([
  {"fx_node": "/layer_1/relu/relu_1", "rt_layer": "ACT_6"},
  {"fx_node": "/split/split_1", "rt_layer": "SPLIT_7"}])";

RunBuilder Target(std::string torch) {
  RunBuilder out("mindie");
  out.Op("Conv_5Relu_8", {8, 3}, {4}).Op("Split_7", {4}, {2, 2});
  out.Op("Lost_1", {1}, {1}).Op("Other", {1}, {1});
  return out.File("maps/" + std::string(kRtFile), kRt)
      .File(kTorchFile, std::move(torch));
}

Mapping Must(absl::StatusOr<Mapping> mapping) {
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping();
}

TEST(MindieTest, LastNodeOfAGroupWins) {
  const auto mapping = ParseMindieMapping(kRt, kJit);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_TRUE(mapping->is_jit);
  ASSERT_EQ(mapping->groups.size(), 3u);
  EXPECT_EQ(mapping->groups[0].fusion_op, "Conv_5Relu_8");
  EXPECT_EQ(ModuleOfNode(mapping->groups[0].first_node, true), "a.conv");
  EXPECT_EQ(ModuleOfNode(mapping->groups[0].node, true), "a.relu");
  EXPECT_EQ(mapping->groups[1].fusion_op, "Split_7");
  EXPECT_EQ(mapping->groups[2].node, "");
}

TEST(MindieTest, NodesNameModules) {
  EXPECT_EQ(ModuleOfNode("%1 = aten::add(%2)", true), "");
  EXPECT_EQ(ModuleOfNode("x, scope: none # f", true), "");
  EXPECT_EQ(ModuleOfNode("x, scope: __module.a # f", true), "a");
  EXPECT_EQ(ModuleOfNode("x, scope: __module.  # f", true), "");
  EXPECT_EQ(ModuleOfNode("/layer1/0/relu/relu_1", false), "layer1.0.relu");
  EXPECT_EQ(ModuleOfNode("/_a_/relu", false), "a");
  EXPECT_EQ(ModuleOfNode("/relu", false), "");
  EXPECT_EQ(ModuleOfNode("///", false), "");
  EXPECT_EQ(ModuleOfNode("", false), "");
}

TEST(MindieTest, OpsHaveAllOutputsOfTheirModules) {
  const RunFacts golden = RunBuilder("msit")
                              .Op("root.a.conv", {8}, {4})
                              .Op("root.a.relu", {4}, {4})
                              .Op("root.split", {4}, {2, 2})
                              .Op("root", {8}, {2})
                              .Build();
  const Mapping mapping =
      Must(MatchMindieWithTorch(golden, Target(kJit).Build(), {}));
  EXPECT_THAT(
      PairsOf(mapping),
      ElementsAre(
          "Conv_5Relu_8.input.0=root.a.conv.input.0", "Conv_5Relu_8.input.1=",
          "Conv_5Relu_8.output.0=root.a.relu.output.0", "Split_7=root.split",
          "Lost_1=", "=root.a.conv.output.0", "=root.a.relu.input.0", "=root"));
  EXPECT_THAT(LeftOf(mapping),
              IsSupersetOf({"target 1: a weight, not an input of the module",
                            "target 2: its layers have no torch node",
                            "target 2: not in the mapping of MindIE (lacks)"}));
  // msit uses only the first output.
  const Mapping compat = Must(
      MatchMindieWithTorch(golden, Target(kJit).Build(), {.is_compat = true}));
  EXPECT_EQ(compat.pair_count, 2u);
}

TEST(MindieTest, NamesOfExportMayHaveLostTheirDots) {
  const RunFacts golden = RunBuilder("msit")
                              .Op("root.layer.1.relu", {4}, {4})
                              .Op("root.split", {4}, {2, 2})
                              .Build();
  EXPECT_THAT(
      PairsOf(Must(MatchMindieWithTorch(golden, Target(kFx).Build(), {}))),
      IsSupersetOf({"Conv_5Relu_8.output.0=root.layer.1.relu.output.0",
                    "Split_7=root.split"}));
}

TEST(MindieTest, ModuleThatWasNotRecordedIsLacking) {
  const RunFacts golden = RunBuilder("msit").Op("root.split", {4}, {2}).Build();
  EXPECT_THAT(
      LeftOf(Must(MatchMindieWithTorch(golden, Target(kJit).Build(), {}))),
      IsSupersetOf(
          {std::string("target 3: the module was not recorded (lacks)")}));
}

TEST(MindieTest, WhatTheTargetLacksIsMissing) {
  const RunFacts golden = RunBuilder("msit")
                              .Op("root.a.conv", {8}, {4})
                              .Op("root.a.relu", {4}, {4})
                              .Op("root.split", {4}, {2, 2})
                              .Build();
  const auto left_of = [&golden](RunBuilder target, bool is_compat) {
    const RunFacts run =
        target.File(kRtFile, kRt).File(kTorchFile, kJit).Build();
    return LeftOf(
        Must(MatchMindieWithTorch(golden, run, {.is_compat = is_compat})));
  };
  RunBuilder no_op("mindie");
  no_op.Op("Split_7", {4}, {2, 2});
  EXPECT_THAT(left_of(no_op, false),
              ElementsAre("golden 2: its op of MindIE was not recorded (lacks)",
                          "golden 2: inside a fused op"));
  RunBuilder no_output("mindie");
  no_output.Op("Split_7", {4, 1}, {2}).Op("Conv_5Relu_8", {8}, {});
  EXPECT_THAT(
      left_of(no_output, false),
      ElementsAre(
          "target 1: a weight, not an input of the module",
          "golden 2: inside a fused op",
          "golden 2: no tensor of its op of MindIE corresponds to it (lacks)"));
  EXPECT_THAT(left_of(no_output, true),
              IsSupersetOf({std::string("golden 1: no tensor of its op of "
                                        "MindIE corresponds to it (lacks)")}));
  RunBuilder more("mindie");
  more.Op("Split_7", {1}, {2, 2, 2}).Op("Conv_5Relu_8", {8}, {4});
  EXPECT_THAT(
      left_of(more, false),
      IsSupersetOf(
          {std::string(
               "target 2: no argument of the module corresponds to it (lacks)"),
           std::string("golden 1: no tensor of its op of MindIE corresponds to "
                       "it (lacks)")}));
}

TEST(MindieTest, AnInputThatTheModuleLacksIsNoWeight) {
  const auto left_of = [](RunBuilder golden,
                          const std::vector<int64_t>& inputs = {4, 8}) {
    const RunFacts target = RunBuilder("mindie")
                                .Op("Split_7", inputs, {2, 2})
                                .File(kRtFile, kRt)
                                .File(kTorchFile, kJit)
                                .Build();
    return LeftOf(Must(MatchMindieWithTorch(golden.Build(), target, {})));
  };
  // The module had two inputs, of which the first was not recorded.
  RunBuilder second("msit");
  second.Op("root.split", {}, {2, 2});
  second.Tensor("root.split", 0, Io::kInput, "1", 8);
  EXPECT_THAT(
      left_of(second),
      ElementsAre(
          "target 1: no argument of the module corresponds to it (lacks)"));
  // One weight is known, and there are two more inputs.
  RunBuilder other("msit");
  other.Op("root.split", {4}, {2, 2});
  other.Tensor("root.split", 0, Io::kWeight, "weight", 2);
  EXPECT_THAT(
      left_of(other, {4, 8, 8}),
      IsSupersetOf({std::string(
          "target 2: no argument of the module corresponds to it (lacks)")}));
  RunBuilder weight("msit");
  weight.Op("root.split", {4}, {2, 2});
  weight.Tensor("root.split", 0, Io::kWeight, "weight", 8);
  EXPECT_THAT(left_of(weight),
              IsSupersetOf({std::string(
                  "target 1: a weight, not an input of the module")}));
}

TEST(MindieTest, CallsOfAModuleAreInOrder) {
  constexpr char kTwice[] = R"([{"id": 1, "rt_layer": "A", "ge_op": "Relu_1"},
                                {"id": 2, "rt_layer": "B", "ge_op": "Relu_2"}])";
  constexpr char kNodes[] = R"([
    {"jit_node": "x, scope: __module.relu # f", "rt_layer": "A"},
    {"jit_node": "y, scope: __module.relu # f", "rt_layer": "B"}])";
  const RunFacts target = RunBuilder("mindie")
                              .Op("Relu_1", {4}, {4})
                              .Op("Relu_2", {4}, {4})
                              .File(kRtFile, kTwice)
                              .File(kTorchFile, kNodes)
                              .Build();
  const RunFacts both = RunBuilder("msit")
                            .Op("root.relu", {4}, {4})
                            .Op("root.relu", {4}, {4}, 1)
                            .Build();
  EXPECT_THAT(PairsOf(Must(MatchMindieWithTorch(both, target, {}))),
              ElementsAre("Relu_1#0.input.0=root.relu#0.input.0",
                          "Relu_1#0.output.0=root.relu#0.output.0",
                          "Relu_2#0.input.0=root.relu#1.input.0",
                          "Relu_2#0.output.0=root.relu#1.output.0"));
  // If only one call was recorded, its number is unknown.
  const RunFacts one = RunBuilder("msit").Op("root.relu", {4}, {4}).Build();
  EXPECT_EQ(Must(MatchMindieWithTorch(one, target, {})).pair_count, 0u);
}

TEST(MindieTest, ModuleOfOthersIsNoLeaf) {
  constexpr char kOuter[] = R"([
    {"jit_node": "x, scope: __module.a # f", "rt_layer": "ACT_6"},
    {"jit_node": "y, scope: __module.a.b # f", "rt_layer": "SPLIT_7"}])";
  const RunFacts golden = RunBuilder("msit")
                              .Op("root.a", {4}, {4})
                              .Op("root.a.b", {4}, {2, 2})
                              .Build();
  EXPECT_THAT(
      LeftOf(Must(MatchMindieWithTorch(golden, Target(kOuter).Build(), {}))),
      IsSupersetOf({std::string(
          "target 3: its torch node is in a module of other ops")}));
}

TEST(MindieTest, TheMapOfOpsIsThatOfMsit) {
  constexpr char kLayers[] = R"([
    {"id": 2, "rt_layer": "B", "ge_op": "Relu_1", "fusion_op": "Conv_1Relu_1"},
    {"id": 1, "rt_layer": "A", "ge_op": "Conv_1", "fusion_op": "Conv_1Relu_1"},
    {"id": 3, "rt_layer": "C", "ge_op": "Add_1"}])";
  constexpr char kNodes[] = R"([{"fx_node": "/é/1", "rt_layer": "B"}])";
  const auto mapping = ParseMindieMapping(kLayers, kNodes);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(OpMapText(*mapping, /*is_compat=*/false), R"({
    "Conv_1Relu_1": {
        "id": 1,
        "jit_node": "/\u00e9/1",
        "fuse_path": [
            {
                "ge_op": "Conv_1",
                "jit_node": null
            },
            {
                "ge_op": "Relu_1",
                "jit_node": "/\u00e9/1"
            }
        ]
    },
    "Add_1": {
        "id": 2,
        "jit_node": null,
        "fuse_path": [
            {
                "ge_op": "Add_1",
                "jit_node": null
            }
        ]
    }
})");
  const std::string compat = OpMapText(*mapping, /*is_compat=*/true);
  EXPECT_THAT(compat, HasSubstr("Add_1"));
  EXPECT_EQ(compat.find("\"ge_op\": \"Conv_1\""), std::string::npos);
}

TEST(MindieTest, BadMappingsAreRefusedWithTheirCause) {
  const auto error = [](std::string_view rt, std::string_view torch) {
    const absl::Status status = ParseMindieMapping(rt, torch).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(Message(status));
  };
  EXPECT_THAT(error("[]", kJit), HasSubstr(std::string(kRtFile) + ": is not"));
  EXPECT_THAT(error(kRt, "{}"), HasSubstr(std::string(kTorchFile) + ": is"));
  EXPECT_THAT(error(kRt, "[1]"), HasSubstr("an entry is not an object"));
  EXPECT_THAT(error(kRt, "["), HasSubstr("is not valid JSON"));
  EXPECT_THAT(error(kRt, R"([{"rt_layer": "ACT_6"}])"),
              HasSubstr("Saving and loading"));
  // After a model is Saving and loading, the key exists but the name is empty.
  for (const char* node : {"\"\"", "null"}) {
    EXPECT_THAT(
        error(kRt, fmt::format(R"([{{"jit_node": {}, "rt_layer": "ACT_6"}}])",
                               node)),
        HasSubstr("Saving and loading"));
  }
  EXPECT_THAT(error(kRt, R"([{"jit_node": "x", "rt_layer": "X"}])"),
              HasSubstr("have no layers in common"));
  EXPECT_THAT(error(std::string(1000, '['), kJit),
              HasSubstr("too many values or levels"));
  const RunFacts run = RunBuilder("mindie").File(kRtFile, kRt).Build();
  const auto missing = MatchMindieWithTorch(run, run, {});
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(Message(missing.status()), HasSubstr(kTorchFile));
}

}  // namespace
}  // namespace msitd::match
