// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/foreign/match/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using ::testing::HasSubstr;

constexpr char kGraph[] = R"(# what GE writes
name: "graph_1"
op {
  name: "Add"
  type: "Add"
  input: "arg:0_1:2"
  input: "const"
  input: "Print:-1"
  input_desc { name: "x" dtype: DT_FLOAT layout: "ND" }
  output_desc {
    name: "y"
    shape { dim: 2 dim: -1 }
    attr { key: "other" value { s: "no" } }
    attr {
      key: "_fx_tensor_name"
      value { s: "add-aten.add.Tensor.OUTPUT.1" }
    }
    device_type: "NPU"
  }
  output_desc: <
    attr: { key: '_fx_tensor_name'; value: { s: "noise-" 'aten.x' } };
  >
}
attr { key: "of the graph" value { list { i: [1, -2, 3] f: 1.5e-3 b: true } } }
op { name: "Mul" type: "Mul" }
)";

TEST(GraphTextTest, OpsHaveInputsAndFxTensors) {
  const GraphText text = ParseGraphText(kGraph);
  ASSERT_TRUE(text.problem.ok()) << text.problem;
  EXPECT_EQ(text.graph.name, "graph_1");
  ASSERT_EQ(text.graph.ops.size(), 2u);
  const GraphOp& op = *text.graph.Find("Add");
  EXPECT_EQ(op.type, "Add");
  ASSERT_EQ(op.inputs.size(), 3u);
  EXPECT_EQ(op.inputs[0].producer, "arg:0_1");
  EXPECT_EQ(op.inputs[0].output, 2);
  EXPECT_EQ(op.inputs[1].producer, "const");
  EXPECT_EQ(op.inputs[2].output, -1);
  EXPECT_EQ(op.output_count, 2u);
  ASSERT_EQ(op.fx_tensors.size(), 2u);
  EXPECT_EQ(op.fx_tensors[0].node, "add-aten.add.Tensor");
  EXPECT_EQ(op.fx_tensors[0].ge_output, 0u);
  EXPECT_EQ(op.fx_tensors[0].fx_output, 1u);
  // Without a number, the FX output has the number of the output.
  EXPECT_EQ(op.fx_tensors[1].node, "noise-aten.x");
  EXPECT_EQ(op.fx_tensors[1].fx_output, 1u);
  EXPECT_EQ(text.graph.Find("Sub"), nullptr);
}

TEST(GraphTextTest, ValuesMayHoldWhatLooksLikeFields) {
  const GraphText text = ParseGraphText(
      R"(op { name: "a" attr { key: "k" value { s: "op { name: \"b\" }" } }
              attr { key: "x: y" value { s: "} # \n" } } }
         op { name: "c" })");
  ASSERT_TRUE(text.problem.ok()) << text.problem;
  EXPECT_EQ(text.graph.ops.size(), 2u);
  EXPECT_EQ(text.graph.Find("b"), nullptr);
}

TEST(GraphTextTest, UnknownFieldsArePassedOver) {
  const GraphText text = ParseGraphText(
      R"([a.b/c]: { x: [] y: [ <z: 1>, {} ] } 17: 3 inf: -inf
         op { name: "a" attr { name: "tt2" } [ext]: 1, more: 0x1F })");
  ASSERT_TRUE(text.problem.ok()) << text.problem;
  EXPECT_EQ(text.graph.ops.size(), 1u);
}

TEST(GraphTextTest, WhatIsWholeBeforeTheEndCounts) {
  const std::string whole = kGraph;
  size_t most = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const GraphText text = ParseGraphText(whole.substr(0, size));
    EXPECT_GE(text.graph.ops.size(), most) << size;
    most = text.graph.ops.size();
    for (const GraphOp& op : text.graph.ops) {
      if (op.name == "Add") {
        EXPECT_EQ(op.fx_tensors.size(), 2u);
      }
    }
  }
  const GraphText cut =
      ParseGraphText("op { name: \"a\" }\nop { name: \"b\"\n");
  EXPECT_EQ(cut.graph.ops.size(), 1u);
  EXPECT_EQ(Message(cut.problem), "line 3: the text ends here");
}

TEST(GraphTextTest, ProblemsNameTheirLine) {
  EXPECT_THAT(Message(ParseGraphText("op {\n name }").problem),
              HasSubstr("line 2: a field has neither"));
  EXPECT_THAT(Message(ParseGraphText("}").problem),
              HasSubstr("line 1: not the name"));
  EXPECT_THAT(Message(ParseGraphText("op { name: \"a").problem),
              HasSubstr("line 1: "));
  EXPECT_FALSE(ParseGraphText(std::string("\0\x01\xff", 3)).problem.ok());
}

TEST(GraphTextTest, DepthIsBounded) {
  std::string deep;
  for (size_t i = 0; i <= kGraphDepthMax; ++i) deep += "a {";
  EXPECT_THAT(Message(ParseGraphText(deep).problem), HasSubstr("too deep"));
  EXPECT_THAT(
      Message(ParseGraphText("a: " + std::string(100'000, '[')).problem),
      HasSubstr("has no value"));
}

TEST(GraphTextTest, SecondOpOfANameDoesNotCount) {
  const GraphText text = ParseGraphText(
      R"(op { name: "a" type: "A" } op { name: "a" type: "B" } op { type: "C" })");
  ASSERT_EQ(text.graph.ops.size(), 1u);
  EXPECT_EQ(text.graph.ops[0].type, "A");
}

}  // namespace
}  // namespace msitd::match
