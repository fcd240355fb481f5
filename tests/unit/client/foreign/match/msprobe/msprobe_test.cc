// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/msprobe/msprobe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/match/limits.h"
#include "client/foreign/match/match.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The files of a comparison; empty if there is none.
struct Yaml {
  std::string_view data = {};
  std::string_view cells = {};
  std::string_view apis = {};
  std::string_view layers = {};
  std::string_view ignored = {};
};

MsprobeMapping Read(const Yaml& yaml) {
  MsprobeMapping out;
  EXPECT_TRUE(ReadDataMapping(yaml.data, out).ok());
  EXPECT_TRUE(ReadCellMapping(yaml.cells, out).ok());
  EXPECT_TRUE(ReadApiMapping(yaml.apis, out).ok());
  if (!yaml.layers.empty()) {
    EXPECT_TRUE(ReadLayerMapping(yaml.layers, out).ok());
  }
  EXPECT_TRUE(ReadIgnoreTable(yaml.ignored, out).ok());
  return out;
}

Mapping MatchWith(const Yaml& yaml, const RunFacts& golden,
                  const RunFacts& target) {
  MatchOptions options;
  options.msprobe = Read(yaml);
  auto mapping = Match(Matcher::kMsprobe, golden, target, options);
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping();
}

std::string ErrorOf(absl::Status (*read)(std::string_view, MsprobeMapping&),
                    std::string_view yaml) {
  MsprobeMapping out;
  const absl::Status status = read(yaml, out);
  EXPECT_FALSE(status.ok()) << yaml;
  return std::string(Message(status));
}

TEST(MsprobeMatcherTest, NamesOfMindSporeAreThoseOfTorch) {
  const RunFacts golden = RunBuilder("msprobe")
                              .Op("Module.fc.Linear", {1}, {1})
                              .Op("Torch.add", {1}, {1})
                              .Op("Functional.gelu", {1}, {1})
                              .Op("Functional.linear", {1}, {1})
                              .Op("Torch.eq", {1}, {1})
                              .Op("Tensor.to", {1}, {1})
                              .Build();
  const RunFacts target = RunBuilder("msprobe")
                              .Op("Cell.fc.Linear", {1}, {1})
                              .Op("Mint.add", {1}, {1})
                              .Op("MintFunctional.gelu", {1}, {1})
                              .Op("Functional.dense", {1}, {1})
                              .Op("Functional.equal", {1}, {1})
                              .Op("Tensor.to", {1}, {1})
                              .Op("Primitive.own", {1}, {1})
                              .Build();
  const Mapping mapping = MatchWith({}, golden, target);
  EXPECT_THAT(
      PairsOf(mapping),
      ElementsAre("Cell.fc.Linear=Module.fc.Linear", "Mint.add=Torch.add",
                  "MintFunctional.gelu=Functional.gelu",
                  "Functional.dense=Functional.linear",
                  "Functional.equal=Torch.eq", "Tensor.to=Tensor.to"));
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre("target 2: no golden tensor corresponds to it (lacks)"));
  // Swapping the sides gives the same pairs.
  EXPECT_EQ(MatchWith({}, target, golden).pair_count, mapping.pair_count);
}

TEST(MsprobeMatcherTest, OwnNameComesBeforeThatOfTheOtherFramework) {
  const RunFacts golden =
      RunBuilder("msprobe").Op("Torch.relu", {}, {1}).Build();
  const RunFacts target = RunBuilder("msprobe")
                              .Op("Functional.relu", {}, {1})
                              .Op("Torch.relu", {}, {1})
                              .Build();
  EXPECT_THAT(PairsOf(MatchWith({}, golden, target)),
              ElementsAre("Torch.relu=Torch.relu"));
}

TEST(MsprobeMatcherTest, CellMappingNamesModulesOrPartsOfThem) {
  const RunFacts golden = RunBuilder("msprobe")
                              .Op("Module.fc1.Linear", {1}, {1})
                              .Op("Module.conv3.Conv2d", {1}, {1})
                              .Op("Module.a.TERowParallelLinear", {1}, {1})
                              .Build();
  const RunFacts target = RunBuilder("msprobe")
                              .Op("Cell.fc1.Dense", {1}, {1})
                              .Op("Cell.conv1.Conv2d", {1}, {1})
                              .Op("Module.a.RowParallelLinear", {1}, {1})
                              .Build();
  const Mapping mapping = MatchWith(
      {.cells = "fc1.Dense: fc1.Linear\nconv1.Conv2d: conv3.Conv2d\n"
                "RowParallelLinear: TERowParallelLinear\nabsent.X: Y\n"},
      golden, target);
  EXPECT_THAT(
      PairsOf(mapping),
      ElementsAre("Cell.fc1.Dense=Module.fc1.Linear",
                  "Cell.conv1.Conv2d=Module.conv3.Conv2d",
                  "Module.a.RowParallelLinear=Module.a.TERowParallelLinear"));
  EXPECT_THAT(mapping.notes, ElementsAre("cell mapping: 1 of 4 lines name no "
                                         "tensor of the target run: absent.X"));
}

TEST(MsprobeMatcherTest, ApiMappingChoosesArguments) {
  const RunFacts golden = RunBuilder("msprobe")
                              .Op("Torch.abs", {1, 2, 9}, {3})
                              .Tensor("Torch.abs", 0, Io::kGradInput, "1", 2)
                              .Build();
  const RunFacts target =
      RunBuilder("msprobe")
          .Op("Functional.abs", {1, 7, 2}, {3})
          .Tensor("Functional.abs", 0, Io::kGradInput, "2", 2)
          .Build();
  const Mapping mapping =
      MatchWith({.apis = "- ms_api: Functional.abs\n  pt_api: Torch.abs\n"
                         "  ms_args: [0, 2]\n  pt_args: [0, 1]\n"
                         "- {ms_api: Functional.no, pt_api: Torch.no}\n"},
                golden, target);
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("Functional.abs.input.0=Torch.abs.input.0",
                          "Functional.abs.input.1=",
                          "Functional.abs.input.2=Torch.abs.input.1",
                          "Functional.abs.output.0=Torch.abs.output.0",
                          "Functional.abs.grad_input.2=Torch.abs.grad_input.1",
                          "=Torch.abs.input.2"));
  EXPECT_THAT(LeftOf(mapping), ElementsAre("target 1: not in the API mapping",
                                           "golden 1: not in the API mapping"));
  EXPECT_THAT(mapping.notes, ElementsAre(HasSubstr("1 of 2 lines")));
}

TEST(MsprobeMatcherTest, DataMappingNamesCallsAndArguments) {
  const RunFacts golden = RunBuilder("msprobe")
                              .Op("NPU.fused", {1, 1}, {1})
                              .Op("NPU.fused", {1, 1}, {1}, 1)
                              .Op("Torch.add", {}, {1})
                              .Build();
  const RunFacts target = RunBuilder("msprobe")
                              .Op("Functional.flash", {1, 1}, {1})
                              .Op("Functional.flash", {1, 1}, {1}, 1)
                              .Op("Torch.add", {}, {1})
                              .Build();
  const Mapping mapping = MatchWith(
      {.data =
           "Functional.flash.0.forward.input.0: NPU.fused.1.forward.input.1\n"
           "Functional.flash.1.forward.output.0: NPU.fused.7.forward.output.0\n"
           "Functional.none.1.forward.output.0: "
           "NPU.fused.0.forward.output.0\n"},
      golden, target);
  EXPECT_THAT(
      PairsOf(mapping),
      UnorderedElementsAre("Functional.flash#0.input.0=NPU.fused#1.input.1",
                           "Functional.flash#1.output.0=NPU.fused#7.output.0",
                           "Torch.add=Torch.add"));
  EXPECT_EQ(mapping.pair_count, 2u);
  EXPECT_THAT(mapping.notes,
              ElementsAre("data mapping: 1 of 3 lines name no tensor of the "
                          "target run: Functional.none",
                          "data mapping: 1 of 3 lines name no tensor of the "
                          "golden run: NPU.fused"));
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre("target 2: no golden tensor corresponds to it (lacks)",
                  "golden 2: no target tensor corresponds to it (lacks)"));
}

TEST(MsprobeMatcherTest, WholeCallsHaveOneLine) {
  const RunFacts golden = RunBuilder("msprobe")
                              .Op("Torch.b", {}, {1})
                              .Op("Torch.b", {}, {1}, 1)
                              .Build();
  const RunFacts target = RunBuilder("msprobe")
                              .Op("Torch.a", {}, {1})
                              .Op("Torch.a", {}, {1}, 1)
                              .Build();
  const Mapping mapping = MatchWith(
      {.data = "Torch.a.0.forward.output.0: Torch.b.1.forward.output.0\n"
               "Torch.a.1.forward.output.0: Torch.b.0.forward.output.0\n"},
      golden, target);
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("Torch.a#0=Torch.b#1", "Torch.a#1=Torch.b#0"));
  EXPECT_THAT(LeftOf(mapping), IsEmpty());
}

constexpr std::string_view kLayers =
    "TopLayer:\n  network_with_loss: module\n"
    "Embedding: {reduce.all_reduce: all_reduce}\n"
    "Layer:\n  attention: self_attention(SelfAttention)\n"
    "Attention:\n  flash: core.npu_fusion\n"
    "Other:\n  x: y\n";

RunFacts MindSporeLayers() {
  return RunBuilder("msprobe")
      .Op("Cell.network_with_loss.emb.Embedding", {1}, {1})
      .Op("Distributed.all_reduce", {1}, {1})
      .Op("Mint.cos", {1}, {1}, 0)
      .Op("Mint.cos", {1}, {1}, 1)
      .Op("Cell.network_with_loss.layers.0.attention.Attention", {1}, {1})
      .Op("Functional.flash", {1, 1}, {1})
      .Tensor("Functional.flash", 0, Io::kGradInput, "0", 1)
      .File("construct.json", R"({
        "Mint.cos.0.forward": "Cell.network_with_loss.emb.Embedding.forward.0",
        "Distributed.all_reduce.0.forward": ["Cell.network_with_loss.emb.reduce.Reduce.forward.0", 0],
        "Cell.network_with_loss.emb.Embedding.forward.0": null,
        "Mint.cos.1.forward": "Cell.network_with_loss.layers.0.attention.Attention.forward.0",
        "Functional.flash.0.forward": "Cell.network_with_loss.layers.0.attention.Attention.forward.0",
        "Functional.flash.0.backward": "Cell.network_with_loss.layers.0.attention.Attention.backward.0"})")
      .Op("Cell.network_with_loss.layers.0.Layer", {}, {1})
      .Build();
}

RunFacts TorchLayers() {
  return RunBuilder("msprobe")
      .Op("Torch.cos", {1}, {1}, 0)
      .Op("Torch.cos", {1}, {1}, 1)
      .Op("Distributed.all_reduce", {1}, {1})
      .Op("Module.module.emb.Embedding", {1}, {1})
      .Op("NPU.npu_fusion", {1}, {1})
      .Tensor("NPU.npu_fusion", 0, Io::kGradInput, "0", 1)
      .Op("Module.module.layers.0.self_attention.Attention", {1}, {1})
      .Op("Module.module.layers.0.Layer", {}, {1})
      .File("construct.json", R"({
        "Torch.cos.0.forward": "Module.module.layers.0.self_attention.Attention.forward.0",
        "NPU.npu_fusion.0.forward": "Module.module.layers.0.self_attention.core.Core.forward.0",
        "Torch.cos.1.forward": "Module.module.emb.Embedding.forward.0",
        "Distributed.all_reduce.0.forward": "Module.module.emb.Embedding.forward.0"})")
      .Build();
}

TEST(MsprobeMatcherTest, LayerMappingFindsModulesAndWhatIsCalledInThem) {
  const Mapping mapping =
      MatchWith({.layers = kLayers}, TorchLayers(), MindSporeLayers());
  EXPECT_THAT(
      PairsOf(mapping),
      ElementsAre("Cell.network_with_loss.emb.Embedding="
                  "Module.module.emb.Embedding",
                  "Distributed.all_reduce=Distributed.all_reduce",
                  "Mint.cos#0=Torch.cos#1", "Mint.cos#1=Torch.cos#0",
                  "Cell.network_with_loss.layers.0.attention.Attention="
                  "Module.module.layers.0.self_attention.Attention",
                  "Functional.flash.input.0=NPU.npu_fusion.input.0",
                  "Functional.flash.output.0=NPU.npu_fusion.output.0",
                  "Functional.flash.grad_input.0=NPU.npu_fusion.grad_input.0",
                  "Cell.network_with_loss.layers.0.Layer="
                  "Module.module.layers.0.Layer"));
  EXPECT_THAT(LeftOf(mapping),
              ElementsAre("target 1: the golden call has no such argument "
                          "(lacks)"));
  EXPECT_THAT(mapping.notes, ElementsAre("layer mapping: 1 of 5 lines name no "
                                         "tensor of the target run: Other.x"));
}

TEST(MsprobeMatcherTest, LayersOfAStageAreNumberedFromZero) {
  const auto run = [](const std::string& prefix, int first) {
    RunBuilder out("msprobe");
    out.Op(prefix + "enc.ParallelTransformer", {}, {1});
    for (int i = first; i < first + 2; ++i) {
      out.Op(prefix + "enc.layers." + std::to_string(i) + ".Layer", {}, {1});
    }
    return out.File("construct.json", "{}").Build();
  };
  const Mapping mapping =
      MatchWith({.layers = "{}"}, run("Module.", 0), run("Cell.", 4));
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("Cell.enc.ParallelTransformer="
                          "Module.enc.ParallelTransformer",
                          "Cell.enc.layers.4.Layer=Module.enc.layers.0.Layer",
                          "Cell.enc.layers.5.Layer=Module.enc.layers.1.Layer"));
}

// The first rank of the target has two calls. `other` is the document of
// another rank.
absl::StatusOr<Mapping> MatchRanks(std::string other) {
  const auto run = [](std::string source) {
    RunBuilder out(std::move(source));
    for (int call = 0; call < 3; ++call) out.Op("Torch.cos", {}, {1}, call);
    return out;
  };
  const RunFacts golden = run("msprobe")
                              .File("construct.json", R"({
          "Torch.cos.0.forward": "Module.a.A.forward.0",
          "Torch.cos.1.forward": "Module.a.A.forward.1",
          "Torch.cos.2.forward": null})")
                              .Build();
  const RunFacts target = run("msprobe")
                              .File("construct.json", R"({
          "Torch.cos.0.forward": null,
          "Torch.cos.1.forward": "Module.a.A.forward.0"})")
                              .File("construct.json", std::move(other), 5, 2)
                              .Build();
  MatchOptions options;
  options.msprobe = Read({.layers = "{}"});
  return Match(Matcher::kMsprobe, golden, target, options);
}

TEST(MsprobeMatcherTest, LayersOfRanksMustGoTogether) {
  for (const char* const other :
       {// The calls of another module.
        R"({"Torch.cos.1.forward": "Module.b.B.forward.0"})",
        R"({"Torch.cos.0.forward": "Module.a.A.forward.0"})",
        // A different call is the first one of the module.
        R"({"Torch.cos.0.forward": null,
            "Torch.cos.2.forward": "Module.a.A.forward.0",
            "Torch.cos.1.forward": "Module.a.A.forward.0"})"}) {
    const auto mapping = MatchRanks(other);
    EXPECT_TRUE(absl::IsInvalidArgument(mapping.status())) << other;
    EXPECT_THAT(
        std::string(Message(mapping.status())),
        HasSubstr("run msprobe-run: construct.json of rank 0, token 0 and of "
                  "rank 5, token 2 have \"Torch.cos."));
  }
}

TEST(MsprobeMatcherTest, LayersOfARankMayHaveMoreCalls) {
  const auto mapping = MatchRanks(R"({
      "Torch.cos.1.forward": "Module.a.A.forward.1",
      "Torch.cos.2.forward": "Module.a.A.forward.1",
      "Torch.cos.0.forward": null})");
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(mapping->notes, IsEmpty());
  EXPECT_THAT(
      PairsOf(*mapping),
      UnorderedElementsAre("Torch.cos#0=Torch.cos#2", "Torch.cos#1=Torch.cos#0",
                           "Torch.cos#2=Torch.cos#1"));
}

TEST(MsprobeMatcherTest, RunWithoutTreeIsSaid) {
  const RunFacts golden =
      RunBuilder("msprobe").Op("Torch.cos", {}, {1}).Build();
  const RunFacts target = RunBuilder("msprobe").Op("Mint.cos", {}, {1}).Build();
  const Mapping mapping = MatchWith({.layers = "{}"}, golden, target);
  EXPECT_EQ(mapping.pair_count, 1u);
  EXPECT_THAT(mapping.notes, ElementsAre(HasSubstr("has no construct.json"),
                                         HasSubstr("has no construct.json")));
}

TEST(MsprobeMatcherTest, MoreCallsThanBoundedAreRefused) {
  const RunFacts target =
      RunBuilder("msprobe")
          .Op("Mint.cos", {}, {1}, static_cast<int32_t>(kLayerCallsMax))
          .Build();
  MatchOptions options;
  options.msprobe = Read({.layers = "{}"});
  EXPECT_TRUE(absl::IsResourceExhausted(
      Match(Matcher::kMsprobe, target, target, options).status()));
}

TEST(MsprobeMatcherTest, ReceiveBuffersAreIgnored) {
  const auto run = [](std::string_view irecv) {
    return RunBuilder("msprobe")
        .Op(irecv, {1}, {1})
        .Tensor(irecv, 0, Io::kInput, "tensor", 1)
        .Tensor("Distributed.all_gather", 0, Io::kInput, "0.0", 1)
        .Tensor("Distributed.all_gather", 0, Io::kInput, "0.1", 1)
        .Tensor("Distributed.all_gather", 0, Io::kInput, "1", 1)
        .Op("NPU.npu_fusion_attention", {1}, {1, 1, 1, 1, 1, 1, 1})
        .Build();
  };
  const Mapping mapping =
      MatchWith({.ignored = DefaultIgnoreTable()}, run("Distributed.irecv"),
                run("Distributed.irecv"));
  EXPECT_EQ(mapping.pair_count, 8u);
  EXPECT_THAT(LeftOf(mapping),
              ElementsAre("target 6: ignored: a receive buffer or scratch",
                          "golden 6: ignored: a receive buffer or scratch"));
  EXPECT_THAT(
      mapping.notes,
      ElementsAre(
          "12 tensors are ignored (receive buffers and scratch memory): "
          "Distributed.all_gather input/0, Distributed.irecv "
          "input/0, Distributed.irecv input/tensor, ..."));
  // A table of the user replaces the default table. It names only MindSpore's
  // buffer, and the buffer of torch that is paired with it is ignored as well.
  const Mapping own =
      MatchWith({.apis = "{ms_api: Mint.irecv, pt_api: Distributed.irecv}",
                 .ignored = "Mint: {irecv: {input: [0]}}"},
                run("Distributed.irecv"), run("Mint.irecv"));
  EXPECT_THAT(LeftOf(own),
              ElementsAre("target 1: ignored: a receive buffer or scratch",
                          "golden 1: ignored: a receive buffer or scratch"));
}

TEST(MsprobeMappingTest, WhatIsNoMappingIsRefusedWithItsLine) {
  EXPECT_THAT(ErrorOf(ReadDataMapping, "a.0.forward.input.0: b\n"),
              HasSubstr("line 1: \"b\" is not a name of a tensor"));
  EXPECT_THAT(ErrorOf(ReadDataMapping, "- a\n"), HasSubstr("TARGET: GOLDEN"));
  EXPECT_THAT(ErrorOf(ReadDataMapping, "a: [b]\n"), HasSubstr("no"));
  EXPECT_THAT(ErrorOf(ReadCellMapping, "a: {b: c}\n"),
              HasSubstr("\"a\" is not mapped to a name"));
  EXPECT_THAT(ErrorOf(ReadCellMapping, "a: b\na: c\n"), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(ReadCellMapping, "'': c\n"), HasSubstr("name"));
  EXPECT_THAT(ErrorOf(ReadApiMapping, "ms_api: a\n"),
              HasSubstr("there is no pt_api"));
  EXPECT_THAT(ErrorOf(ReadApiMapping, "{ms_api: a, pt_api: b, ms_args: [0]}"),
              HasSubstr("ms_args and pt_args have different lengths"));
  EXPECT_THAT(ErrorOf(ReadApiMapping,
                      "{ms_api: a, pt_api: b, ms_args: [0, 0], pt_args: "
                      "[0, 1]}"),
              HasSubstr("0 is in ms_args twice"));
  EXPECT_THAT(ErrorOf(ReadApiMapping, "{ms_api: a, pt_api: b, pt_arg: []}"),
              HasSubstr("\"pt_arg\" is unknown"));
  EXPECT_THAT(ErrorOf(ReadApiMapping,
                      "[{ms_api: a, pt_api: b}, {ms_api: a, pt_api: c}]"),
              HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(ErrorOf(ReadLayerMapping, "TopLayer: module\n"),
              HasSubstr("\"TopLayer\" has no layers"));
  EXPECT_THAT(ErrorOf(ReadLayerMapping, "A: {x: &a y, z: *a}\n"),
              HasSubstr("aliases"));
  for (const char* table :
       {"A: [b]", "A: {b: [0]}", "A: {b: {input: 0}}", "A: {b: {inputs: [0]}}",
        "A: {b: {input: [[0]]}}", "[A]"}) {
    EXPECT_THAT(ErrorOf(ReadIgnoreTable, table), HasSubstr("line 1"));
  }
  MsprobeMapping out;
  std::string many;
  for (size_t i = 0; i <= kCellLinesMax; ++i) {
    many += "a" + std::to_string(i) + ": b\n";
  }
  EXPECT_TRUE(absl::IsResourceExhausted(ReadCellMapping(many, out)));
}

TEST(MsprobeMappingTest, LongestLayersComeFirst) {
  MsprobeMapping out;
  ASSERT_TRUE(
      ReadLayerMapping("Cell: {a: x, a.b.c: y, a.b: z(Old)}\n", out).ok());
  std::vector<std::string> lines;
  for (const auto& line : out.layers) {
    lines.push_back(line.type + "/" + line.target + "=" + line.golden);
  }
  EXPECT_THAT(
      lines, ElementsAre("TopLayer/a.b.c=y", "TopLayer/a.b=z", "TopLayer/a=x"));
}

}  // namespace
}  // namespace msitd::match
