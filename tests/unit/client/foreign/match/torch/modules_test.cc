// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/foreign/match/limits.h"
#include "client/foreign/match/torch/module_pairs.h"
#include "client/foreign/match/torch/module_tree.h"
#include "client/foreign/match/torch/torch_atb.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr int kLayers = 11;

std::string TorchNode(const std::string& name, const std::string& type,
                      const std::vector<std::string>& children) {
  return fmt::format(R"({{"name":"{}","type":"{}","children":[{}]}})", name,
                     type, fmt::join(children, ","));
}

// Returns a model of layers, each with attention, mlp and two norms.
std::string ModelTree(int layer_count = kLayers) {
  std::vector<std::string> layers;
  for (int i = 0; i < layer_count; ++i) {
    const std::string at = fmt::format("root.model.layers.{}", i);
    const auto leaf = [&at](const std::string& name, const std::string& type) {
      return TorchNode(at + "." + name, type, {});
    };
    layers.push_back(
        TorchNode(at, "Layer",
                  {TorchNode(at + ".self_attn", "Attn",
                             {leaf("self_attn.q_proj", "Linear"),
                              leaf("self_attn.k_proj", "Linear"),
                              leaf("self_attn.v_proj", "Linear"),
                              leaf("self_attn.o_proj", "Linear"),
                              leaf("self_attn.rotary_emb", "Rotary")}),
                   TorchNode(at + ".mlp", "MlpBlock",
                             {leaf("mlp.gate_proj", "Linear"),
                              leaf("mlp.down_proj", "Linear")}),
                   leaf("input_layernorm", "RMSNorm")}));
  }
  return TorchNode(
      "root", "Model",
      {TorchNode("root.model", "Inner",
                 {TorchNode("root.model.embed_tokens", "Embedding", {}),
                  TorchNode("root.model.layers", "ModuleList", layers),
                  TorchNode("root.model.norm", "RMSNorm", {})}),
       TorchNode("root.lm_head", "Linear", {})});
}

std::string AtbNode(const std::string& name, const std::string& type,
                    const std::vector<std::string>& children = {}) {
  return fmt::format(R"({{"opName":"{}","opType":"{}","nodes":[{}]}})", name,
                     type, fmt::join(children, ","));
}

std::string Topology(int layer_count = kLayers) {
  std::vector<std::string> nodes = {
      AtbNode("WordEmbedding_0", "WordEmbedding")};
  for (int i = 1; i <= layer_count; ++i) {
    const auto name = [i](const std::string& type, const std::string& path) {
      return fmt::format("{}_{}{}", type, i, path);
    };
    nodes.push_back(AtbNode(
        name("Layer", ""), "DecoderLayer",
        {AtbNode(name("Attention", "_0"), "Attention",
                 {AtbNode(name("RmsNormOperation", "_0_0"), "RmsNormOperation"),
                  AtbNode(name("QKVLinearSplit", "_0_1"), "QKVLinearSplit",
                          {AtbNode(name("SplitOperation", "_0_1_0"),
                                   "SplitOperation")}),
                  AtbNode(name("RopeOperation", "_0_2"), "RopeOperation")}),
         AtbNode(
             name("Mlp", "_1"), "Mlp",
             {AtbNode(name("LinearOperation", "_1_0"), "LinearOperation")})}));
  }
  nodes.push_back(AtbNode("RmsNormOperation_12", "RmsNormOperation"));
  nodes.push_back(AtbNode("LmHead_13", "LmHead"));
  return fmt::format(R"({{"modelName":"M","nodes":[{}]}})",
                     fmt::join(nodes, ","));
}

ModuleTree Torch(int layer_count = kLayers) {
  return *ParseModelTree("model_tree.json", ModelTree(layer_count));
}
ModuleTree Atb(int layer_count = kLayers) {
  return *ParseTopology("model/M.json", Topology(layer_count), 0);
}

std::vector<std::string> Names(const ModuleTree& torch, const ModuleTree& atb,
                               ModuleLevel level, const OpMapping& user = {}) {
  std::vector<std::string> out;
  const auto pairs = PairModules(torch, atb, level, user,
                                 FindLayers(torch, atb, /*finds_few=*/true));
  EXPECT_TRUE(pairs.ok()) << pairs.status();
  for (const ModulePair& pair : *pairs) {
    out.push_back(atb[pair.atb].op + "=" + torch[pair.torch].name);
  }
  return out;
}

TEST(ModuleTreeTest, LayersAreWhatIsMostCommon) {
  EXPECT_EQ(Torch().Layers().size(), static_cast<size_t>(kLayers));
  EXPECT_EQ(Atb().Layers().size(), static_cast<size_t>(kLayers));
  EXPECT_THAT(ModuleTree().Layers(), IsEmpty());
  const ModuleTree atb = Atb();
  EXPECT_EQ(atb[atb.Layers()[1]].op, "2_DecoderLayer");
  EXPECT_EQ(ParseTopology("m", Topology(), 20)->Layers().size(), 11u);
  EXPECT_EQ((*ParseTopology("m", Topology(), 20))[1].op, "20_WordEmbedding");
}

TEST(ModuleTreeTest, NamesMakeATree) {
  RunBuilder builder("");
  for (int i = 0; i < kLayers; ++i) {
    builder.Op(fmt::format("root.layers.{}.mlp", i), {4}, {4});
  }
  const ModuleTree tree = TreeOfOps(builder.Op("other", {}, {1}).Build());
  EXPECT_EQ(tree.Layers().size(), static_cast<size_t>(kLayers));
  EXPECT_EQ(tree[tree.Layers()[10]].op, "root.layers.10");
  EXPECT_EQ(tree.LeavesOf(0).size(), static_cast<size_t>(kLayers) + 1);
}

TEST(ModuleTreeTest, BadTreesAreRefused) {
  for (const std::string text : {"", "[]", "{}", "{\"name\": 1}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseModelTree("t", text).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTopology("t", text, 0).status()));
  }
  std::string deep;
  for (size_t i = 0; i < kJsonDepthMax; ++i) {
    deep += R"({"name":"a","children":[)";
  }
  EXPECT_THAT(Message(ParseModelTree("t", deep).status()),
              HasSubstr("t: has too many values or levels"));
}

TEST(ModulePairsTest, LayersAndSpecialNamesBelongTogether) {
  const auto names = Names(Torch(), Atb(), ModuleLevel::kLayer);
  EXPECT_EQ(names.size(), static_cast<size_t>(kLayers) + 3);
  EXPECT_THAT(names, IsSupersetOf({"0_WordEmbedding=root.model.embed_tokens",
                                   "1_DecoderLayer=root.model.layers.0",
                                   "11_DecoderLayer=root.model.layers.10",
                                   "12_RmsNormOperation=root.model.norm",
                                   "13_LmHead=root.lm_head"}));
}

TEST(ModuleTreeTest, SmallModelsHaveNumberedModulesOfOneType) {
  EXPECT_THAT(Torch(10).Layers(), IsEmpty());
  EXPECT_EQ(Torch(10).FewLayers().size(), 10u);
  EXPECT_EQ(Atb(3).FewLayers().size(), 3u);
  const ModuleTree two = Torch(2);
  ASSERT_EQ(two.FewLayers().size(), 2u);
  EXPECT_EQ(two[two.FewLayers()[1]].op, "root.model.layers.1");
  EXPECT_THAT(Torch(1).FewLayers(), IsEmpty());
  EXPECT_THAT(ModuleTree().FewLayers(), IsEmpty());
  // Modules without modules of their own are not layers.
  const auto sequence = ParseModelTree(
      "model_tree.json", TorchNode("root", "Sequential",
                                   {TorchNode("root.0", "Linear", {}),
                                    TorchNode("root.1", "Linear", {})}));
  ASSERT_TRUE(sequence.ok());
  EXPECT_THAT(sequence->FewLayers(), IsEmpty());
}

TEST(ModulePairsTest, FewLayersArePairedIfTheirCountsAreEqual) {
  const LayersOfModels equal = FindLayers(Torch(3), Atb(3), true);
  EXPECT_EQ(equal.torch.size(), 3u);
  EXPECT_EQ(equal.atb.size(), 3u);
  EXPECT_THAT(FindLayers(Torch(3), Atb(3), false).torch, IsEmpty());
  EXPECT_THAT(FindLayers(Torch(3), Atb(4), true).torch, IsEmpty());
  EXPECT_THAT(FindLayers(Torch(3), Atb(), true).torch, IsEmpty());
}

TEST(ModulePairsTest, ModulesOfLayersBelongTogether) {
  const auto names = Names(Torch(), Atb(), ModuleLevel::kModule);
  EXPECT_EQ(names.size(), 2 * static_cast<size_t>(kLayers));
  EXPECT_THAT(
      names,
      IsSupersetOf({"3_DecoderLayer/0_Attention=root.model.layers.2.self_attn",
                    "3_DecoderLayer/1_Mlp=root.model.layers.2.mlp"}));
}

TEST(ModulePairsTest, NormsAreNoModulesOfLayers) {
  const ModuleTree torch = Torch();
  std::vector<std::string> names;
  for (const size_t node : ModulesOfLayers(torch, torch.Layers())) {
    names.push_back(torch[node].name);
  }
  EXPECT_EQ(names.size(), 2 * static_cast<size_t>(kLayers));
  EXPECT_THAT(
      std::vector(names.begin(), names.begin() + 3),
      ElementsAre("root.model.layers.0.mlp", "root.model.layers.0.self_attn",
                  "root.model.layers.1.mlp"));
  EXPECT_THAT(ModulesOfLayers(ModuleTree(), {}), IsEmpty());
}

TEST(ModulePairsTest, OperationsBelongToModulesByTheirWords) {
  const auto names = Names(Torch(), Atb(), ModuleLevel::kApi);
  const std::string atb = "1_DecoderLayer/0_Attention/";
  const std::string torch = "=root.model.layers.0.";
  EXPECT_THAT(
      names,
      IsSupersetOf({atb + "1_QKVLinearSplit/0_SplitOperation" + torch +
                        "self_attn.v_proj",
                    atb + "1_QKVLinearSplit" + torch + "self_attn.q_proj",
                    atb + "2_RopeOperation" + torch + "self_attn.rotary_emb",
                    atb + "0_RmsNormOperation" + torch + "input_layernorm",
                    "1_DecoderLayer/1_Mlp/0_LinearOperation" + torch +
                        "mlp.down_proj"}));
}

TEST(ModulePairsTest, UserMayNameTypes) {
  const std::string pair =
      "1_DecoderLayer/0_Attention=root.model.layers.0.self_attn";
  EXPECT_THAT(Names(Torch(), Atb(), ModuleLevel::kApi), Not(Contains(pair)));
  for (const char* text :
       {R"({"Attention": ["Attn"]})", R"({"Attention": "Attn"})"}) {
    const auto user = ParseOpMapping(text);
    ASSERT_TRUE(user.ok()) << user.status();
    EXPECT_THAT(Names(Torch(), Atb(), ModuleLevel::kApi, *user),
                Contains(pair));
  }
  const auto places =
      ParseOpMapping(R"({"Attention_outtensor1": "Attn_output_2_0"})");
  const ModuleTree torch = Torch();
  const ModuleTree atb = Atb();
  const auto pairs = PairModules(torch, atb, ModuleLevel::kApi, *places,
                                 FindLayers(torch, atb, /*finds_few=*/true));
  int found = 0;
  for (const ModulePair& one : *pairs) {
    found += one.atb_place == ModulePlace{Io::kOutput, "1"} &&
             one.torch_place == ModulePlace{Io::kOutput, "2.0"};
  }
  EXPECT_EQ(found, kLayers);
  for (const char* text : {"[]", R"({"a": 1})", R"({"a": ["b/c"]})",
                           R"({"a b": "c"})", R"({"a": [1]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseOpMapping(text).status())) << text;
  }
}

TEST(ModulePairsTest, QuantizedOperationsBelongToThoseThatAreNot) {
  const auto tree = [](const std::string& type) {
    return *ParseTopology(
        "m",
        fmt::format(R"({{"modelName":"M","nodes":[{},{}]}})",
                    AtbNode("a_0", "Block", {AtbNode("b_0_0", type)}),
                    AtbNode("c_1", "Other")),
        0);
  };
  EXPECT_THAT(Names(tree("LinearOperation"), tree("LinearQuantOperation"),
                    ModuleLevel::kApi),
              Contains("0_Block/0_LinearQuantOperation=b_0_0"));
}

// Returns the records of one layer.
RunFacts TorchRun() {
  return RunBuilder("msit")
      .Op("root.model.layers.0.self_attn.q_proj", {4}, {8})
      .Op("root.model.layers.0.self_attn.k_proj", {4}, {8})
      .Op("root.model.layers.0.self_attn.v_proj", {4}, {8})
      .Op("root.model.layers.0.mlp.down_proj", {8}, {4})
      .Op("root.model.layers.0", {4}, {4, 2})
      .File("model_tree.json", ModelTree())
      .Build();
}

RunFacts AtbRun() {
  return RunBuilder("atb")
      .Op("1_DecoderLayer/0_Attention/1_QKVLinearSplit", {4}, {8, 8, 8})
      .Op("1_DecoderLayer/1_Mlp/0_LinearOperation", {8}, {16})
      .Op("1_DecoderLayer", {4}, {4})
      .File("model/M.json", Topology())
      .Build();
}

TEST(TorchAtbTest, TensorsArePairedByPlaceAndSize) {
  const auto mapping = MatchTorchWithAtb(TorchRun(), AtbRun(), {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  const std::string qkv = "1_DecoderLayer/0_Attention/1_QKVLinearSplit.output.";
  const std::string torch = "=root.model.layers.0";
  EXPECT_THAT(PairsOf(*mapping),
              IsSupersetOf({qkv + "0" + torch + ".self_attn.q_proj.output.0",
                            qkv + "1" + torch + ".self_attn.k_proj.output.0",
                            qkv + "2" + torch + ".self_attn.v_proj.output.0",
                            "1_DecoderLayer.output.0" + torch + ".output.0"}));
  EXPECT_EQ(mapping->pair_count, 4u);
  EXPECT_THAT(LeftOf(*mapping),
              IsSupersetOf({std::string("target 1: no tensor of the other "
                                        "model has its size (lacks)")}));
}

TEST(TorchAtbTest, QueryKeyAndValueMayBeDefinedInAnotherOrder) {
  std::string tree = ModelTree();
  // Defines key, value and query in this order.
  for (const auto& [from, to] :
       {std::pair("q_proj", "x"), std::pair("k_proj", "y"),
        std::pair("v_proj", "q_proj"), std::pair("x\"", "k_proj\""),
        std::pair("y\"", "v_proj\"")}) {
    const std::string name = std::string("self_attn.") + from;
    for (size_t at = tree.find(name); at != std::string::npos;
         at = tree.find(name, at + 1)) {
      tree.replace(at, name.size(), std::string("self_attn.") + to);
    }
  }
  const std::string attention = "root.model.layers.0.self_attn.";
  RunBuilder torch("msit");
  for (const char* part : {"k_proj", "v_proj", "q_proj"}) {
    torch.Op(attention + part, {4}, {8});
  }
  const auto mapping = MatchTorchWithAtb(
      torch.File("model_tree.json", tree).Build(), AtbRun(), {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  const std::string qkv = "1_DecoderLayer/0_Attention/1_QKVLinearSplit.output.";
  EXPECT_THAT(PairsOf(*mapping),
              IsSupersetOf({qkv + "0=" + attention + "q_proj.output.0",
                            qkv + "1=" + attention + "k_proj.output.0",
                            qkv + "2=" + attention + "v_proj.output.0"}));
}

TEST(TorchAtbTest, RunsMayStandTheOtherWayRound) {
  const auto mapping = MatchTorchWithAtb(AtbRun(), TorchRun(), {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->pair_count, 4u);
  EXPECT_THAT(PairsOf(*mapping),
              Contains("root.model.layers.0.output.0=1_DecoderLayer.output.0"));
}

TEST(TorchAtbTest, PrefillAndDecodeStandBesideOneModel) {
  const std::string decode =
      fmt::format(R"({{"modelName":"D","nodes":[{}]}})",
                  AtbNode("WordEmbedding_14", "WordEmbedding"));
  const RunFacts torch = RunBuilder("msit")
                             .Op("root.model.embed_tokens", {1}, {4})
                             .File("model_tree.json", ModelTree())
                             .Build();
  const RunFacts atb = RunBuilder("atb")
                           .Op("0_WordEmbedding", {1}, {4})
                           .Op("13_LmHead", {1}, {4})
                           .Op("14_WordEmbedding", {1}, {4})
                           .File("model/A.json", decode)
                           .File("model/B.json", Topology())
                           .Build();
  const auto mapping = MatchTorchWithAtb(torch, atb, {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(
      PairsOf(*mapping),
      IsSupersetOf(
          {"0_WordEmbedding.output.0=root.model.embed_tokens.output.0",
           "14_WordEmbedding.output.0=root.model.embed_tokens.output.0"}));
}

// Returns a topology of 11 layers, numbered from `first`.
std::string Graph(int first) {
  std::vector<std::string> nodes;
  for (int i = 0; i < kLayers; ++i) {
    nodes.push_back(AtbNode(fmt::format("Layer_{}", first + i), "Layer"));
  }
  return fmt::format(R"({{"modelName":"M","nodes":[{}]}})",
                     fmt::join(nodes, ","));
}

RunFacts TwoGraphs(int shift, const std::string& prefix = "") {
  RunBuilder builder("atb");
  for (int i = 0; i < 2 * kLayers; ++i) {
    // The prompt has eight tokens. Later calls have one.
    builder.Op(fmt::format("{}{}_Layer", prefix, i + shift), {},
               {i < kLayers ? 32 : 4});
  }
  // The decode graph has the first name.
  return builder.File("model/A.json", Graph(kLayers))
      .File("model/B.json", Graph(0))
      .Build();
}

RunFacts LayersOfTorch() {
  RunBuilder builder("msit");
  for (const int count : {32, 4, 4}) {
    for (int i = 0; i < kLayers; ++i) {
      builder.Op(fmt::format("root.model.layers.{}", i), {}, {count});
    }
  }
  return builder.File("model_tree.json", ModelTree()).Build();
}

TEST(TorchAtbTest, LaterTokensAreOfOtherSizes) {
  for (const int shift : {0, 1}) {
    const auto mapping = MatchTorchWithAtb(LayersOfTorch(), TwoGraphs(shift),
                                           {.level = ModuleLevel::kLayer});
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    EXPECT_EQ(mapping->pair_count, 2u * kLayers);
    EXPECT_THAT(
        PairsOf(*mapping),
        IsSupersetOf(
            {fmt::format("{}_Layer=root.model.layers.0", shift),
             fmt::format("{}_Layer=root.model.layers.10", 21 + shift)}));
  }
}

TEST(TorchAtbTest, AGraphMayStandAlone) {
  for (const size_t graph : {0, 1}) {
    const auto mapping =
        MatchTorchWithAtb(TwoGraphs(0), LayersOfTorch(),
                          {.level = ModuleLevel::kLayer, .graph = graph});
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    EXPECT_EQ(mapping->pair_count, size_t{kLayers});
    EXPECT_THAT(PairsOf(*mapping),
                Contains(fmt::format("root.model.layers.3={}_Layer",
                                     3 + kLayers * graph)));
  }
}

TEST(TorchAtbTest, WarmUpsBelongTogether) {
  const auto mapping =
      MatchTorchWithAtb(TwoGraphs(0, "warmup/"), TwoGraphs(0, "warmup/"), {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->pair_count, 2u * kLayers);
  EXPECT_THAT(PairsOf(*mapping), Contains("warmup/21_Layer=warmup/21_Layer"));
  const auto beside_torch =
      MatchTorchWithAtb(LayersOfTorch(), TwoGraphs(0, "warmup/"), {});
  ASSERT_TRUE(beside_torch.ok()) << beside_torch.status();
  EXPECT_EQ(beside_torch->pair_count, 0u);
}

TEST(TorchAtbTest, WhatOneRunLacksIsMissing) {
  const RunFacts atb =
      RunBuilder("atb")
          .Op("1_DecoderLayer/0_Attention/1_QKVLinearSplit", {4}, {8, 8})
          .Op("1_DecoderLayer", {4}, {4})
          .Op("2_DecoderLayer", {4}, {4})
          .File("model/M.json", Topology())
          .Build();
  const auto mapping = MatchTorchWithAtb(TorchRun(), atb, {});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(
      LeftOf(*mapping),
      IsSupersetOf(
          {"target 1: its counterpart was not recorded (lacks)",
           "golden 2: its counterpart was not recorded (lacks)",
           "golden 1: no tensor of the other model has its size (lacks)"}));
  const auto turned = MatchTorchWithAtb(atb, TorchRun(), {});
  ASSERT_TRUE(turned.ok()) << turned.status();
  EXPECT_THAT(
      LeftOf(*turned),
      IsSupersetOf(
          {"target 2: its counterpart was not recorded (lacks)",
           "target 1: no tensor of the other model has its size (lacks)"}));
}

// Each card names its own rank in its topology. The model is the same.
TEST(TorchAtbTest, CardsHaveCopiesOrPieces) {
  const auto torch = [] {
    return RunBuilder("msit")
        .Op("root.model.layers.0", {}, {8})
        .Op("root.model.layers.0.mlp.down_proj", {}, {8})
        .File("model_tree.json", ModelTree())
        .Build();
  };
  RunBuilder cards("atb");
  for (const int32_t rank : {0, 1}) {
    cards.Rank(rank)
        .Op("1_DecoderLayer", {}, {8})
        .Op("1_DecoderLayer/1_Mlp/0_LinearOperation", {}, {rank == 0 ? 3 : 5});
  }
  const RunFacts atb = cards.File("model/M.json", Topology())
                           .File("model/4243/M.json", Topology())
                           .Build();
  MatchOptions options;
  options.joins_ranks = true;
  const auto mapping = MatchTorchWithAtb(torch(), atb, options);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->pair_count, 2u);
  const auto rank_by_rank = MatchTorchWithAtb(torch(), atb, {});
  ASSERT_TRUE(rank_by_rank.ok()) << rank_by_rank.status();
  EXPECT_EQ(rank_by_rank->pair_count, 1u);
}

TEST(TorchAtbTest, TopologyIsNeeded) {
  const RunFacts atb = RunBuilder("atb").Op("a", {}, {1}).Build();
  EXPECT_TRUE(
      absl::IsNotFound(MatchTorchWithAtb(TorchRun(), atb, {}).status()));
}

}  // namespace
}  // namespace msitd::match
