// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "client/foreign/match/engine/engine_match.h"
#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/engine/engine_table.h"
#include "client/foreign/match/engine/engine_view.h"
#include "client/foreign/match/match.h"
#include "tests/unit/client/foreign/match/engine/engine_facts.h"

namespace msitd::match {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A model with 4 query heads and 2 key heads of length 8, as the hooks record
// one layer of it in transformers and in vLLM.
constexpr int64_t kWidth = 32;

ModelFacts Transformers(const std::string& version = "5.24.0") {
  ModelFacts out("transformers.models", version);
  out.Config("num_attention_heads", 4)
      .Config("num_key_value_heads", 2)
      .Config("head_dim", 8)
      .Config("hidden_size", kWidth)
      .Config("vocab_size", 100);
  out.Module("root.model", "LlamaModel")
      .In("input_ids", {1, 5})
      .Out("last_hidden_state", {1, 5, kWidth});
  out.Module("root", "LlamaForCausalLM")
      .In("0", {1, 5})
      .Out("logits", {1, 5, 100});
  return out;
}

void AddAttention(ModelFacts& out, int64_t kv = 16) {
  const std::string at = "root.model.layers.0.self_attn";
  out.Module(at, "LlamaAttention")
      .In("hidden_states", {1, 5, kWidth})
      .In("position_embeddings.0", {1, 5, 8})
      .Out("0", {1, 5, kWidth});
  const std::string linear = "torch.nn.modules.linear.Linear";
  out.Call(at + ".q_proj", linear, {1, 5, kWidth}, {1, 5, 32})
      .Weight("weight", {32, kWidth});
  out.Call(at + ".k_proj", linear, {1, 5, kWidth}, {1, 5, kv})
      .Weight("weight", {kv, kWidth});
  out.Call(at + ".v_proj", linear, {1, 5, kWidth}, {1, 5, kv})
      .Weight("weight", {kv, kWidth});
  out.Call(at + ".o_proj", linear, {1, 5, 32}, {1, 5, kWidth})
      .Weight("weight", {kWidth, 32});
}

ModelFacts Vllm(const std::string& version = "0.32.0") {
  ModelFacts out("vllm", version);
  out.Config("num_attention_heads", 4)
      .Config("num_key_value_heads", 2)
      .Config("head_dim", 8)
      .Config("hidden_size", kWidth)
      .Config("vocab_size", 100);
  out.Module("root", "LlamaForCausalLM")
      .In("input_ids", {5})
      .In("positions", {5})
      .Out("0", {5, kWidth});
  return out;
}

// `ranks` ranks share the layer.
void AddFusedAttention(ModelFacts& out, int64_t ranks = 1) {
  const std::string at = "root.model.layers.0.self_attn";
  const int64_t kv = std::max<int64_t>(16 / ranks, 8);
  out.Module(at, "LlamaAttention")
      .In("positions", {5})
      .In("hidden_states", {5, kWidth})
      .Out("0", {5, kWidth});
  out.Call(at + ".qkv_proj", "QKVParallelLinear", {5, kWidth},
           {5, 32 / ranks + 2 * kv})
      .Weight("weight", {32 / ranks + 2 * kv, kWidth});
  out.Call(at + ".attn", "Attention", {5, 32 / ranks}, {5, 32 / ranks});
  out.Call(at + ".o_proj", "RowParallelLinear", {5, 32 / ranks}, {5, kWidth})
      .Weight("weight", {kWidth, 32 / ranks});
}

std::vector<std::string> Missing(const Mapping& mapping) {
  std::vector<std::string> out;
  for (const LeftTensors& left : mapping.left) {
    if (left.is_expected) continue;
    out.push_back((left.is_golden ? "golden " : "target ") + left.reason);
  }
  return out;
}

// Returns the views of the pairs of a target tensor, as GOLDEN TARGET_VIEW.
std::vector<std::string> ViewsOf(const Mapping& mapping, std::string_view op,
                                 Io io) {
  std::vector<std::string> out;
  for (const Line& line : mapping.lines) {
    if (!line.target || !line.golden || line.target->op != op ||
        line.target->io != io) {
      continue;
    }
    out.push_back(
        line.golden->op.substr(line.golden->op.rfind('.') + 1) + " " +
        line.target_view +
        (line.golden_view.empty() ? "" : " golden " + line.golden_view));
  }
  return out;
}

const ShardLayout* LayoutOf(const Mapping& mapping, std::string_view pattern,
                            Io io, std::string_view index) {
  for (const ShardLayout& layout : mapping.target_layouts) {
    if (layout.op_pattern == pattern && layout.io == io &&
        layout.index == index) {
      return &layout;
    }
  }
  return nullptr;
}

Mapping MatchOf(const RunFacts& golden, const RunFacts& target,
                int golden_ranks = 1, int target_ranks = 1) {
  auto mapping = MatchEngines(golden, target, golden_ranks, target_ranks);
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping();
}

TEST(EngineTableTest, TheTablesOfAllEnginesAreValid) {
  for (const std::string_view text : EngineTableTexts()) {
    const auto table = ParseEngineTable(text);
    EXPECT_TRUE(table.ok()) << table.status() << text.substr(0, 80);
  }
  for (const char* engine : {"transformers", "vllm", "sglang", "megatron"}) {
    ASSERT_NE(FindEngineTable(engine), nullptr) << engine;
    EXPECT_FALSE(FindEngineTable(engine)->checked.empty());
  }
}

TEST(EngineTableTest, MistakesAreRefused) {
  for (const char* yaml :
       {"", "engine: x\n", "engine: x\npackage: y\nrules: [{modul: a}]\n",
        "engine: x\npackage: y\nrules: [{module: a, shards: some}]\n",
        "engine: x\npackage: y\nrules: [{module: a, tensors: {out: {}}}]\n",
        "engine: x\npackage: y\nrules: [{tensors: {output/0: {part: 1}}}]\n",
        "engine: x\npackage: y\nrules: [{cuts: {output/0: []}}]\n",
        "engine: x\npackage: y\nrules: [{cuts: {output/0: [last]}}]\n",
        "engine: x\npackage: y\nnames: [[a]]\n"}) {
    EXPECT_FALSE(ParseEngineTable(yaml).ok()) << yaml;
  }
}

TEST(EngineTableTest, PatternsAndVersions) {
  EXPECT_TRUE(FitsPattern("model.layers.12", "model.layers.?"));
  EXPECT_FALSE(FitsPattern("model.layers.12.mlp", "model.layers.?"));
  EXPECT_TRUE(FitsPattern("a.b.qkv_proj", "*.qkv_proj"));
  EXPECT_FALSE(FitsPattern("a.qkv_proj.b", "*.qkv_proj"));
  EXPECT_TRUE(FitsPattern("", ""));
  // `?` is the rest of a component.
  EXPECT_FALSE(FitsPattern("a.attn_mqa", "*.attn_m?a*"));
  EXPECT_TRUE(FitsPattern("a.attn_mqa", "*.attn_m*a*"));
  EXPECT_TRUE(IsInVersions("0.11.2.post1", ">=0.11.1"));
  EXPECT_FALSE(IsInVersions("0.9.2", ">=0.11.1"));
  EXPECT_TRUE(IsInVersions("4.57.6", "<5"));
  EXPECT_FALSE(IsInVersions("5.0.0", "<5"));
  // An unknown version is the newest.
  EXPECT_TRUE(IsInVersions("", ">=0.11"));
  EXPECT_FALSE(IsInVersions("", "<5"));
  const EngineTable& megatron = *FindEngineTable("megatron");
  EXPECT_EQ(ToCommonPath(megatron, "decoder.layers.3.mlp.linear_fc2"),
            "model.layers.3.mlp.down_proj");
  EXPECT_EQ(ToCommonPath(megatron, "decoder"), "model");
}

TEST(EngineViewTest, StepsThatDoNotFitAreRefused) {
  EngineView view({5, 64});
  EXPECT_FALSE(view.Split(-1, {5, 2}, 0));
  EXPECT_FALSE(view.Split(3, {1, 1}, 0));
  EXPECT_FALSE(view.Slice(0, 2, 6));
  EXPECT_EQ(view.text(), "");
  EXPECT_TRUE(view.Split(-1, {16, 8, 8}, 1, 2));
  EXPECT_EQ(view.text(), "split(-1,2:1:1,1,2)");
  EXPECT_THAT(view.shape(), ElementsAre(5, 16));
}

TEST(EngineMatchTest, FusedProjectionsAreDivided) {
  ModelFacts golden = Transformers();
  AddAttention(golden);
  ModelFacts target = Vllm();
  AddFusedAttention(target);
  const RunFacts a = golden.Build();
  const RunFacts b = target.Build();
  const Mapping mapping = MatchOf(a, b);
  const char* const fused = "root.model.layers.0.self_attn.qkv_proj";
  EXPECT_THAT(
      ViewsOf(mapping, fused, Io::kOutput),
      ElementsAre("k_proj split(-1,2:1:1,1)", "q_proj split(-1,2:1:1,0)",
                  "v_proj split(-1,2:1:1,2)"));
  EXPECT_THAT(ViewsOf(mapping, fused, Io::kWeight),
              Contains("q_proj split(0,2:1:1,0)"));
  EXPECT_THAT(ViewsOf(mapping, fused, Io::kInput),
              Contains("v_proj slice(-1,:)"));
  EXPECT_THAT(Missing(mapping), IsEmpty());
  EXPECT_EQ(mapping.rows, RowRelation::kSqueezed);
  EXPECT_FALSE(mapping.pairs_others);
  // The other way round, the golden tensor is divided.
  const Mapping turned = MatchOf(b, a);
  EXPECT_THAT(
      ViewsOf(turned, "root.model.layers.0.self_attn.k_proj", Io::kOutput),
      ElementsAre("qkv_proj  golden split(-1,2:1:1,1)"));
  EXPECT_THAT(Missing(turned), IsEmpty());
}

TEST(EngineMatchTest, SizesThatDoNotFitAreMissing) {
  ModelFacts golden = Transformers();
  AddAttention(golden, /*kv=*/8);
  ModelFacts target = Vllm();
  AddFusedAttention(target);
  const Mapping mapping = MatchOf(golden.Build(), target.Build());
  EXPECT_THAT(Missing(mapping),
              Contains("golden it has another size in the other run"));
}

TEST(EngineMatchTest, RanksThatShareALayerGetLayouts) {
  ModelFacts golden = Transformers();
  AddAttention(golden);
  ModelFacts target = Vllm();
  AddFusedAttention(target, 4);
  const Mapping mapping = MatchOf(golden.Build(), target.Build(), 1, 4);
  EXPECT_THAT(Missing(mapping), IsEmpty());
  // Two ranks have the same key head, of which the first is used.
  EXPECT_THAT(
      ViewsOf(mapping, "root.model.layers.0.self_attn.qkv_proj", Io::kOutput),
      Contains("k_proj split(-1,1:1:1,1).split(-1,1:1,0,2)"));
  ASSERT_FALSE(mapping.target_layouts.empty());
  const auto layout = std::find_if(
      mapping.target_layouts.begin(), mapping.target_layouts.end(),
      [](const ShardLayout& one) {
        return one.op_pattern == "*.qkv_proj" && one.io == Io::kOutput;
      });
  ASSERT_NE(layout, mapping.target_layouts.end());
  EXPECT_EQ(layout->dim, -1);
  EXPECT_THAT(layout->sections, ElementsAre(1, 1, 1));
  EXPECT_EQ(mapping.target_layouts.back().op_pattern, "*");
  EXPECT_TRUE(mapping.golden_layouts.empty());
}

TEST(EngineMatchTest, ResidualsAreAdded) {
  ModelFacts golden = Transformers();
  golden.Module("root.model.layers.1", "LlamaDecoderLayer")
      .In("0", {1, 5, kWidth})
      .Out("0", {1, 5, kWidth});
  golden.Call("root.model.layers.1.input_layernorm", "LlamaRMSNorm",
              {1, 5, kWidth}, {1, 5, kWidth});
  const RunFacts facts = golden.Build();
  ModelFacts target = Vllm();
  target.Module("root.model.layers.1", "LlamaDecoderLayer")
      .In("0", {5})
      .In("1", {5, kWidth})
      .In("2", {5, kWidth})
      .Out("0", {5, kWidth})
      .Out("1", {5, kWidth});
  target.Module("root.model.layers.1.input_layernorm", "RMSNorm")
      .In("0", {5, kWidth})
      .In("1", {5, kWidth})
      .Out("0", {5, kWidth})
      .Out("1", {5, kWidth});
  const Mapping mapping = MatchOf(facts, target.Build());
  EXPECT_THAT(ViewsOf(mapping, "root.model.layers.1", Io::kOutput),
              ElementsAre("1 sum(@output/1)"));
  EXPECT_THAT(ViewsOf(mapping, "root.model.layers.1", Io::kInput),
              ElementsAre("1 sum(@input/2)"));
  EXPECT_THAT(
      ViewsOf(mapping, "root.model.layers.1.input_layernorm", Io::kOutput),
      ElementsAre("input_layernorm ", "input_layernorm "));
  EXPECT_THAT(Missing(mapping), IsEmpty());
}

TEST(EngineMatchTest, LayersOfNewSglangEndInTheNextNorm) {
  ModelFacts golden = Transformers();
  for (const char* layer : {"root.model.layers.0", "root.model.layers.1"}) {
    golden.Call(layer, "LlamaDecoderLayer", {1, 5, kWidth}, {1, 5, kWidth});
  }
  ModelFacts target("sglang", "0.5.23");
  target.Module("root", "LlamaForCausalLM");
  target.Module("root.model.layers.0", "LlamaDecoderLayer")
      .In("0", {5})
      .In("1", {5, kWidth})
      .Out("0", {5, kWidth});
  target.Module("root.model.layers.1.input_layernorm", "RMSNorm")
      .In("0", {5, kWidth})
      .In("1", {5, kWidth})
      .Out("0", {5, kWidth})
      .Out("1", {5, kWidth});
  const Mapping mapping = MatchOf(golden.Build(), target.Build());
  EXPECT_THAT(
      ViewsOf(mapping, "root.model.layers.1.input_layernorm", Io::kOutput),
      Contains("0 "));
}

TEST(EngineMatchTest, MegatronInterleavesGroupsAndHasTheSequenceFirst) {
  ModelFacts golden = Transformers();
  AddAttention(golden);
  golden.Call("root.model.layers.0.mlp.act_fn", "SiLUActivation", {1, 5, 48},
              {1, 5, 48});
  golden.Module("root.model.embed_tokens", "torch.nn.Embedding")
      .Weight("weight", {100, kWidth});
  ModelFacts target("megatron.core", "0.16.1");
  target.Module("root", "GPTModel").In("0", {1, 5});
  target.Module("root.decoder", "TransformerBlock").Out("0", {5, 1, kWidth});
  const std::string at = "root.decoder.layers.0.self_attention";
  target.Module(at, "SelfAttention")
      .In("0", {5, 1, kWidth})
      .Out("0", {5, 1, kWidth});
  target
      .Call(at + ".linear_qkv", "ColumnParallelLinear", {5, 1, kWidth},
            {5, 1, 64})
      .Weight("weight", {64, kWidth});
  target
      .Call(at + ".linear_proj", "RowParallelLinear", {5, 1, 32},
            {5, 1, kWidth})
      .Weight("weight", {kWidth, 32});
  target.Module("root.embedding.word_embeddings", "VocabParallelEmbedding")
      .Weight("weight", {128, kWidth});
  const Mapping mapping = MatchOf(golden.Build(), target.Build());
  EXPECT_THAT(ViewsOf(mapping, at + ".linear_qkv", Io::kOutput),
              Contains("q_proj transpose(0,1).split(-1,2:1:1,0,2)"));
  EXPECT_THAT(ViewsOf(mapping, at + ".linear_qkv", Io::kWeight),
              Contains("v_proj split(0,2:1:1,2,2)"));
  EXPECT_THAT(ViewsOf(mapping, "root.embedding.word_embeddings", Io::kWeight),
              ElementsAre("embed_tokens slice(0,0:100)"));
  EXPECT_THAT(Missing(mapping), IsEmpty());
}

TEST(EngineMatchTest, ExpertsOfOldReleasesArePartsOfOneTensor) {
  ModelFacts golden = Transformers("4.57.6");
  for (const char* expert : {"0", "1"}) {
    const std::string at =
        std::string("root.model.layers.0.mlp.experts.") + expert;
    golden.Module(at + ".gate_proj", "torch.nn.Linear")
        .In("0", {3, kWidth})
        .Weight("weight", {16, kWidth});
    golden.Module(at + ".down_proj", "torch.nn.Linear")
        .Weight("weight", {kWidth, 16});
  }
  const RunFacts facts = golden.Build();
  ModelFacts target = Vllm("0.16.0");
  target.Module("root.model.layers.0.mlp.experts", "SharedFusedMoE")
      .Weight("w13_weight", {2, 32, kWidth})
      .Weight("w2_weight", {2, kWidth, 16});
  const Mapping mapping = MatchOf(facts, target.Build());
  EXPECT_THAT(ViewsOf(mapping, "root.model.layers.0.mlp.experts", Io::kWeight),
              Contains("gate_proj slice(0,1:2).flatten(0,1).split(0,1:1,0)"));
  EXPECT_THAT(Missing(mapping), Not(Contains(HasSubstr("golden"))));
  // Two releases of one engine.
  ModelFacts newer = Transformers();
  newer.Module("root.model.layers.0.mlp.experts", "Qwen2MoeExperts")
      .Weight("gate_up_proj", {2, 32, kWidth})
      .Weight("down_proj", {2, kWidth, 16});
  const Mapping own = MatchOf(facts, newer.Build());
  EXPECT_TRUE(own.pairs_others);
  EXPECT_THAT(ViewsOf(own, "root.model.layers.0.mlp.experts", Io::kWeight),
              Contains("down_proj slice(0,0:1).flatten(0,1)"));
}

TEST(EngineMatchTest, ASharedExpertIsMultipliedByItsGateSinceARelease) {
  const std::string at = "root.model.layers.0.mlp.shared_expert";
  ModelFacts golden = Transformers();
  golden.Call(at, "Qwen2MoeMLP", {5, kWidth}, {5, kWidth});
  const RunFacts facts = golden.Build();
  for (const auto& [version, is_gone] :
       {std::pair("0.10.2", false), std::pair("0.12.0", true)}) {
    ModelFacts target = Vllm(version);
    target.Call(at, "Qwen2MoeMLP", {5, kWidth}, {5, kWidth});
    const Mapping mapping = MatchOf(facts, target.Build());
    const bool has_reason = std::any_of(
        mapping.left.begin(), mapping.left.end(), [](const LeftTensors& left) {
          return left.reason == "it is multiplied by the output of its gate";
        });
    EXPECT_EQ(has_reason, is_gone) << version;
    EXPECT_THAT(Missing(mapping), IsEmpty());
  }
}

TEST(EngineMatchTest, WhatNoRuleCoversIsMissing) {
  ModelFacts golden = Transformers();
  golden.Call("root.model.layers.0.new_module", "New", {5, 4}, {5, 4});
  const Mapping mapping = MatchOf(golden.Build(), Vllm().Build());
  EXPECT_THAT(Missing(mapping),
              Contains("golden the other run has no such module"));
}

TEST(EngineMatchTest, RunsOfOneEngineWithEqualNamesNeedNoLines) {
  ModelFacts golden = Vllm();
  AddFusedAttention(golden);
  ModelFacts target = Vllm();
  AddFusedAttention(target, 2);
  const RunFacts facts = golden.Build();
  EXPECT_THAT(MatchOf(facts, facts).lines, IsEmpty());
  // Only layouts.
  const Mapping mapping = MatchOf(facts, target.Build(), 1, 2);
  EXPECT_THAT(mapping.lines, IsEmpty());
  const ShardLayout* const attention =
      LayoutOf(mapping, "*.self_attn.attn", Io::kOutput, "0");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->kind, ShardLayout::Kind::kConcat);
  EXPECT_EQ(attention->dim, -1);
  // Both runs have all other tensors, so that their layout follows from their
  // sizes.
  EXPECT_EQ(mapping.target_layouts.back().op_pattern, "*");
  EXPECT_EQ(mapping.target_layouts.back().kind, ShardLayout::Kind::kFit);
}

TEST(EngineMatchTest, RanksHaveAPartOfEachHalfOfAGate) {
  const std::string at = "root.model.layers.0.mlp.act_fn";
  ModelFacts golden = Transformers();
  golden.Call(at, "torch.nn.modules.activation.SiLU", {1, 5, 48}, {1, 5, 48});
  ModelFacts target = Vllm();
  AddFusedAttention(target, 2);
  target.Call(at, "SiluAndMul", {5, 48}, {5, 24});
  const Mapping mapping = MatchOf(golden.Build(), target.Build(), 1, 2);
  EXPECT_THAT(ViewsOf(mapping, at, Io::kInput),
              ElementsAre("act_fn split(-1,1:1,0)"));
  const ShardLayout* const gate =
      LayoutOf(mapping, "*.mlp.act_fn", Io::kInput, "0");
  ASSERT_NE(gate, nullptr);
  EXPECT_THAT(gate->sections, ElementsAre(1, 1));
}

TEST(EngineMatchTest, DocumentsAreUntrusted) {
  RunFacts facts = Vllm().Build();
  EXPECT_EQ(EngineOf(facts.files), "vllm");
  for (const char* text :
       {"", "[]", "{\"modules\":7}", "{\"modules\":[7,{\"op\":3}]}",
        "{\"modules\":[{\"op\":\"a\",\"class\":\"vllm\"}]}",
        "{\"modules\":[{\"class\":\"torch.nn.Linear\",\"config\":[]}]}"}) {
    EXPECT_EQ(EngineOf({{"module_tree.json", text}}), "") << text;
  }
  // Sizes that would overflow or divide by zero.
  ModelFacts hostile("vllm", "x");
  hostile.Config("num_attention_heads", int64_t{1} << 61)
      .Config("head_dim", int64_t{1} << 61)
      .Config("num_key_value_heads", 1)
      .Config("hidden_size", -1);
  hostile.Module("root", "A");
  AddFusedAttention(hostile);
  ModelFacts golden = Transformers();
  AddAttention(golden);
  EXPECT_TRUE(MatchEngines(golden.Build(), hostile.Build(), 1, 8).ok());
  RunFacts nothing;
  EXPECT_FALSE(MatchEngines(nothing, facts, 1, 1).ok());
}

TEST(EngineMatchTest, EnginesChooseTheMatcher) {
  EXPECT_EQ(ChooseMatcher("transformers", "vllm", false), Matcher::kHfVllm);
  EXPECT_EQ(ChooseMatcher("sglang", "transformers", false), Matcher::kHfSglang);
  EXPECT_EQ(ChooseMatcher("transformers", "megatron", false),
            Matcher::kHfMegatron);
  EXPECT_EQ(ChooseMatcher("vllm", "sglang", false), Matcher::kEngines);
  EXPECT_EQ(ChooseMatcher("vllm", "", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("transformers", "mindie", false), Matcher::kMindie);
}

}  // namespace
}  // namespace msitd::match
