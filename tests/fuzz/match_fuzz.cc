// SPDX-License-Identifier: Apache-2.0
// Graphs, mappings and trees of other tools, which a matcher reads.
#include "client/foreign/match/match.h"
#include "client/foreign/match/mindie.h"
#include "client/foreign/match/torch/module_pairs.h"
#include "client/foreign/match/torch/module_tree.h"
#include "protos/base/check.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  const std::string graph =
      R"(name: "g" op { name: "A" input: "x:0" output_desc { attr {
         key: "_fx_tensor_name" value { s: "a-b.OUTPUT.0" } } } }
         op { name: "B_1" input: "A:0" input: "y:1" } # )";
  const std::string tree =
      R"({"name":"root","type":"M","children":[
          {"name":"root.lm_head","type":"Linear","children":[]}]})";
  const std::string topology =
      R"({"modelName":"M","nodes":[{"opName":"LmHead_0","opType":"LmHead",
          "param":{"hasBias":false,"elewiseType":8},"nodes":[]}]})";
  const std::string layers =
      R"([{"id":1,"rt_layer":"L","ge_op":"A","fusion_op":"AB_1"}])";
  const std::string nodes =
      R"([{"jit_node":"x, scope: __module.lm_head # f","rt_layer":"L"}])";
  return {"",
          graph,
          tree,
          topology,
          layers,
          nodes,
          R"({"LmHead":["Linear"]})",
          "A.0.forward.input.0: AB_1.0.forward.input.0\n",
          "A.B: C.D\n# x\n'E': \"F\"\n",
          "- {ms_api: A, pt_api: AB_1, ms_args: [0, 1], pt_args: [1, 0]}\n",
          "TopLayer: {A: AB_1, root.lm_head: x}\nA: &a {b: *a}\n",
          "Functional:\n  A:\n    input: [0, x]\n    output: [1]\n",
          R"({"A.0.forward":"Module.x.Y.forward.0","AB_1.0.forward":["x",0]})"};
}

}  // namespace msitd::fuzz

namespace {

using msitd::Io;
using msitd::match::FactsBuilder;
using msitd::match::RunFacts;

RunFacts Run(const std::string& source, const std::string& file,
             std::string text) {
  FactsBuilder builder;
  for (const char* op : {"A", "AB_1", "a-b", "root.lm_head", "0_LmHead"}) {
    for (const Io io : {Io::kInput, Io::kOutput}) {
      MSITD_CHECK(builder.Add(op, 0, io, "0", {4}, 16).ok());
    }
  }
  return {source, source, builder.Finish(), {{file, std::move(text)}}};
}

// The mapping that a matcher creates from the files fits into an attachment.
void Match(msitd::match::Matcher matcher, const RunFacts& golden,
           const RunFacts& target,
           const msitd::match::MsprobeMapping& mapping_files = {}) {
  for (const bool is_compat : {false, true}) {
    msitd::match::MatchOptions options;
    options.msprobe = mapping_files;
    options.is_compat = is_compat;
    const auto mapping = msitd::match::Match(matcher, golden, target, options);
    if (!mapping.ok()) continue;
    for (const msitd::match::Line& line : mapping->lines) {
      MSITD_CHECK(line.golden.has_value() || line.target.has_value());
      const std::string text = msitd::match::ToText(line);
      MSITD_CHECK(text.size() <= msitd::kMappingLineBytesMax);
      MSITD_CHECK(text.size() > 2 && msitd::IsValidUtf8(text));
    }
  }
}

// Matches with each mapping file of msprobe, and with all of them together.
void MatchByFiles(const std::string& text) {
  using msitd::match::MsprobeMapping;
  const RunFacts run = Run("msprobe", "construct.json", text);
  MsprobeMapping all;
  for (const auto read :
       {msitd::match::ReadDataMapping, msitd::match::ReadCellMapping,
        msitd::match::ReadApiMapping, msitd::match::ReadLayerMapping,
        msitd::match::ReadIgnoreTable}) {
    MsprobeMapping one;
    if (read(text, one).ok()) {
      Match(msitd::match::Matcher::kMsprobe, run, run, one);
    }
    (void)read(text, all);
  }
  Match(msitd::match::Matcher::kMsprobe, run, run, all);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msitd::match::Matcher;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const RunFacts graph = Run("ge", "dynamo_original_graph_1.txt", text);
  Match(Matcher::kGeFx, Run("fx", "", ""), graph);
  Match(Matcher::kGeGe, Run("ge", "", ""), graph);
  Match(Matcher::kGeSelf, graph, graph);
  Match(Matcher::kTorchAtb, Run("msit", "model_tree.json", text),
        Run("atb", "model/M.json", text));
  MatchByFiles(text);
  (void)msitd::match::ParseOpMapping(text);
  const auto seeds = msitd::fuzz::Seeds();
  (void)msitd::match::ParseMindieMapping(text, seeds[5]);
  (void)msitd::match::ParseMindieMapping(seeds[4], text);
  return 0;
}
