// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/foreign/match/ge/ge_fx.h"
#include "client/foreign/match/ge/ge_ge.h"
#include "client/foreign/match/match.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

constexpr char kGraphFile[] = "dynamo_original_graph_1_rank_0_pid_4_ts_5.txt";

// Returns an op of a graph. `tensors` are FX tensors, one for each output.
std::string GraphOpText(const std::string& name,
                        const std::vector<std::string>& inputs,
                        const std::vector<std::string>& tensors) {
  std::string out = fmt::format("op {{ name: \"{}\" ", name);
  for (const std::string& input : inputs) {
    out += fmt::format("input: \"{}\" ", input);
  }
  for (const std::string& tensor : tensors) {
    out += "output_desc { ";
    if (!tensor.empty()) {
      out += fmt::format(
          "attr {{ key: \"_fx_tensor_name\" value {{ s: \"{}\" }} }} ", tensor);
    }
    out += "} ";
  }
  return out + "}\n";
}

std::string Graph() {
  return GraphOpText("Add", {"x:0", "y:0"}, {"add-a.OUTPUT.0"}) +
         GraphOpText("Mul_1", {"Add:0", "x:0"}, {"mul-m.OUTPUT.0"}) +
         GraphOpText("Relu_2", {"Mul_1:0"}, {"relu-r.OUTPUT.0"}) +
         GraphOpText("Shape_3", {"Relu_2:0"}, {""}) +
         GraphOpText("Split", {"Relu_2:0"},
                     {"split-s.OUTPUT.0", "split-s.OUTPUT.1"});
}

RunBuilder FxRun() {
  RunBuilder out("fx");
  out.Op("add-a", {4, 4}, {4}).Op("mul-m", {4, 4}, {4});
  return out.Op("relu-r", {4}, {4}).Op("split-s", {4, 1, 1}, {2, 2});
}

Mapping Must(absl::StatusOr<Mapping> mapping) {
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping();
}

TEST(GeFxTest, OneOpIsOneNode) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("Add", {4, 4}, {4})
                          .Op("Split", {4}, {2, 2})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("Add=add-a", "Split.input.0=split-s.input.0",
                          "Split.output.0=split-s.output.0",
                          "Split.output.1=split-s.output.1", "=split-s.input.1",
                          "=split-s.input.2"));
  EXPECT_THAT(LeftOf(mapping),
              ElementsAre("golden 5: its GE op was not recorded (lacks)",
                          "golden 2: a scalar, which a GE op may have as an "
                          "attribute"));
}

TEST(GeFxTest, ArgumentsThatOneRunLacksAreMissing) {
  const RunFacts fx = RunBuilder("fx")
                          .Op("add-a", {4, 4}, {4})
                          .Op("split-s", {4}, {2, 2})
                          .Build();
  const RunFacts ge = RunBuilder("ge")
                          .Op("Add", {4}, {4})
                          .Op("Split", {4, 1}, {2})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(fx, ge, {}));
  EXPECT_THAT(PairsOf(mapping), ElementsAre("Add.input.0=add-a.input.0",
                                            "Add.output.0=add-a.output.0",
                                            "Split.input.0=split-s.input.0",
                                            "Split.output.0=split-s.output.0"));
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre(
          "target 1: no input of the FX node corresponds to it (lacks)",
          "golden 2: no tensor of its GE op corresponds to it (lacks)"));
}

// The FX nodes have inputs of 4 elements and of 1 element, and the GE ops have
// one recorded input. If the graph has two inputs for the op, the input of 1
// element is missing.
TEST(GeFxTest, AnInputOfOneElementIsMissingIfTheOpLacksOne) {
  const std::string graph =
      GraphOpText("Mul", {"x:0", "y:0"}, {"mul-m.OUTPUT.0"}) +
      GraphOpText("Neg", {"x:0"}, {"neg-n.OUTPUT.0"});
  const RunFacts fx = RunBuilder("fx")
                          .Op("mul-m", {4, 1}, {4})
                          .Op("neg-n", {4, 1}, {4})
                          .Build();
  const RunFacts ge = RunBuilder("ge")
                          .Op("Mul", {4}, {4})
                          .Op("Neg", {4}, {4})
                          .File(kGraphFile, graph)
                          .Build();
  EXPECT_THAT(
      LeftOf(Must(MatchGeWithFx(fx, ge, {}))),
      ElementsAre("golden 1: no tensor of its GE op corresponds to it (lacks)",
                  "golden 1: a scalar, which a GE op may have as an "
                  "attribute"));
}

TEST(GeFxTest, AnInputOfOneElementIsMissingIfTheFusedOpLacksOne) {
  const std::string graph =
      GraphOpText("Mul", {"x:0", "y:0"}, {"mul-m.OUTPUT.0"}) +
      GraphOpText("Neg", {"Mul:0"}, {"neg-n.OUTPUT.0"});
  const RunFacts fx = RunBuilder("fx")
                          .Op("mul-m", {4, 1, 1}, {4})
                          .Op("neg-n", {4}, {4})
                          .Build();
  const auto left_of = [&](const std::vector<int64_t>& inputs) {
    const RunFacts ge = RunBuilder("ge")
                            .Op("MulNeg", inputs, {4})
                            .File(kGraphFile, graph)
                            .Build();
    return LeftOf(Must(MatchGeWithFx(fx, ge, {})));
  };
  EXPECT_THAT(
      left_of({4, 1}),
      ElementsAre("golden 1: a scalar, which a GE op may have as an attribute",
                  "golden 2: inside a fused op"));
  EXPECT_THAT(
      left_of({4}),
      ElementsAre("golden 2: no tensor of its GE op corresponds to it (lacks)",
                  "golden 2: inside a fused op"));
}

TEST(GeFxTest, ArgumentsThatAFusedOpLacksAreMissing) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("AddMul_1Relu_2", {4}, {})
                          .Op("Split", {4, 1, 1}, {2, 2})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  // The second input of Mul_1 is the first input of Add.
  EXPECT_THAT(
      PairsOf(mapping),
      ElementsAre("AddMul_1Relu_2.input.0=add-a.input.0", "Split=split-s",
                  "=add-a.output.0", "=mul-m", "=relu-r.input.0"));
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre("golden 2: no tensor of its GE op corresponds to it (lacks)",
                  "golden 5: inside a fused op"));
}

TEST(GeFxTest, FusedOpHasTheInputsOfItsPartsAndTheOutputsOfTheLast) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("AddMul_1Relu_2", {4, 4, 4}, {4})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  EXPECT_THAT(PairsOf(mapping),
              IsSupersetOf({"AddMul_1Relu_2.input.0=add-a.input.0",
                            "AddMul_1Relu_2.input.1=add-a.input.1",
                            "AddMul_1Relu_2.input.2=mul-m.input.1",
                            "AddMul_1Relu_2.output.0=relu-r.output.0",
                            "=add-a.output.0", "=relu-r.input.0"}));
  EXPECT_EQ(mapping.pair_count, 4u);
  EXPECT_THAT(LeftOf(mapping),
              IsSupersetOf({std::string("golden 4: inside a fused op")}));
}

TEST(GeFxTest, InputThatTwoPartsTakeMayBeOne) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("AddMul_1", {4, 4}, {4})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  EXPECT_THAT(PairsOf(mapping),
              IsSupersetOf({"AddMul_1.input.0=add-a.input.0",
                            "AddMul_1.input.1=add-a.input.1",
                            "AddMul_1.output.0=mul-m.output.0"}));
}

TEST(GeFxTest, WhatHasNoNodeIsCountedWithItsReason) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("trans_TransData_7", {4}, {4})
                          .Op("Shape_3", {4}, {1})
                          .Op("Add_extra", {4}, {4})
                          .Op("Unknown", {4}, {4})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  EXPECT_EQ(mapping.pair_count, 0u);
  EXPECT_THAT(
      LeftOf(mapping),
      IsSupersetOf(
          {"target 2: inserted by GE; only comparable with the same run",
           "target 2: the graph names no FX node for it",
           "target 2: the graph has only the beginning of its name (lacks)",
           "target 2: not an op of the graph (lacks)"}));
}

TEST(GeFxTest, NodeThatWasNotRecordedIsLacking) {
  const RunFacts fx = RunBuilder("fx").Op("mul-m", {4, 4}, {4}).Build();
  const RunFacts ge =
      RunBuilder("ge").Op("Add", {4, 4}, {4}).File(kGraphFile, Graph()).Build();
  const Mapping mapping = Must(MatchGeWithFx(fx, ge, {}));
  EXPECT_THAT(PairsOf(mapping), ElementsAre("Add.output.0=add-a.output.0"));
  EXPECT_THAT(LeftOf(mapping)[0],
              "target 3: the FX node was not recorded (lacks)");
}

TEST(GeFxTest, ArgumentsAreInTheOrderOfNumbersUnlessAsMsitHasThem) {
  std::vector<int64_t> sizes(12, 4);
  const RunFacts fx = RunBuilder("fx").Op("cat-c", sizes, {48}).Build();
  const RunFacts ge =
      RunBuilder("ge")
          .Op("Cat", sizes, {48})
          .File(kGraphFile, GraphOpText("Cat", {}, {"cat-c.OUTPUT.0"}))
          .Build();
  EXPECT_THAT(PairsOf(Must(MatchGeWithFx(fx, ge, {}))),
              ElementsAre("Cat=cat-c"));
  EXPECT_THAT(PairsOf(Must(MatchGeWithFx(fx, ge, {.is_compat = true}))),
              IsSupersetOf(
                  {"Cat.input.2=cat-c.input.10", "Cat.input.4=cat-c.input.2"}));
}

TEST(GeFxTest, CompatibleMatchCutsTheLongerList) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("Split", {1, 4}, {2})
                          .Op("Add_extra", {4, 4}, {4})
                          .File(kGraphFile, Graph())
                          .Build();
  EXPECT_THAT(
      PairsOf(Must(MatchGeWithFx(FxRun().Build(), ge, {.is_compat = true}))),
      IsSupersetOf({"Split.input.0=split-s.input.0",
                    "Split.input.1=split-s.input.1",
                    "Split.output.0=split-s.output.0", "Add_extra=add-a"}));
}

TEST(GeFxTest, ScalarsOfTheNodeAreNoInputs) {
  const RunFacts fx = RunBuilder("fx").Op("sum-s", {1, 8, 2}, {4}).Build();
  const RunFacts ge =
      RunBuilder("ge")
          .Op("Sum", {8, 2}, {4})
          .File(kGraphFile, GraphOpText("Sum", {}, {"sum-s.OUTPUT.0"}))
          .Build();
  EXPECT_THAT(
      PairsOf(Must(MatchGeWithFx(fx, ge, {}))),
      ElementsAre("Sum.input.0=sum-s.input.1", "Sum.input.1=sum-s.input.2",
                  "Sum.output.0=sum-s.output.0", "=sum-s.input.0"));
}

TEST(GeFxTest, EachModelHasItsGraph) {
  const RunFacts fx = RunBuilder("fx")
                          .Op("graph_1/n", {4}, {4})
                          .Op("graph_2/n", {4}, {4})
                          .Build();
  const RunFacts ge = RunBuilder("ge")
                          .Op("g/10/A", {4}, {4})
                          .Op("g/2/B", {4}, {4})
                          .File("dynamo_original_graph_2_x.txt",
                                GraphOpText("A", {}, {"n.OUTPUT.0"}))
                          .File("dynamo_original_graph_1_x.txt",
                                GraphOpText("B", {}, {"n.OUTPUT.0"}))
                          .Build();
  EXPECT_THAT(PairsOf(Must(MatchGeWithFx(fx, ge, {}))),
              ElementsAre("g/10/A=graph_2/n", "g/2/B=graph_1/n"));
}

TEST(GeFxTest, GraphIsNeeded) {
  const auto mapping = MatchGeWithFx(
      FxRun().Build(), RunBuilder("ge").Op("Add", {}, {4}).Build(), {});
  EXPECT_TRUE(absl::IsNotFound(mapping.status()));
  EXPECT_THAT(Message(mapping.status()), HasSubstr("dynamo_original_graph_"));
}

TEST(GeFxTest, CutGraphIsNoted) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("Add", {4, 4}, {4})
                          .File(kGraphFile, Graph() + "op {")
                          .Build();
  const Mapping mapping = Must(MatchGeWithFx(FxRun().Build(), ge, {}));
  EXPECT_EQ(mapping.pair_count, 3u);
  ASSERT_EQ(mapping.notes.size(), 1u);
  EXPECT_THAT(mapping.notes[0], HasSubstr("the text ends here"));
}

TEST(GeFxTest, RunsMayStandTheOtherWayRound) {
  const RunFacts ge = RunBuilder("ge")
                          .Op("Add", {4, 4}, {4})
                          .Op("Add_extra", {4}, {4})
                          .File(kGraphFile, Graph())
                          .Build();
  const Mapping mapping = Must(Match(Matcher::kGeFx, ge, FxRun().Build(), {}));
  EXPECT_THAT(PairsOf(mapping), ElementsAre("add-a=Add"));
  EXPECT_THAT(LeftOf(mapping),
              IsSupersetOf({std::string(
                  "target 10: its GE op was not recorded (lacks)")}));
}

RunBuilder Unfused() {
  RunBuilder out("ge");
  return out.Op("Add", {4, 4}, {4})
      .Op("Mul_1", {4, 4}, {4})
      .Op("Relu_2", {4}, {4});
}

TEST(GeGeTest, FusedOpTakesWhatItsPartsTakeFromOutside) {
  const RunFacts target = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4, 4, 4}, {4})
                              .Op("trans_Cast_9", {4}, {4})
                              .File(kGraphFile, Graph())
                              .Build();
  const Mapping mapping = Must(MatchGeWithGe(Unfused().Build(), target, {}));
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("AddMul_1Relu_2.input.0=Add.input.0",
                          "AddMul_1Relu_2.input.1=Add.input.1",
                          "AddMul_1Relu_2.input.2=Mul_1.input.1",
                          "AddMul_1Relu_2.output.0=Relu_2.output.0",
                          "trans_Cast_9=", "=Add.output.0", "=Mul_1.input.0",
                          "=Mul_1.output.0", "=Relu_2.input.0"));
}

TEST(GeGeTest, AFusedGoldenOpIsBesideItsPartsInTheTarget) {
  const RunFacts golden = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4, 4, 4}, {4})
                              .Op("Split", {4}, {2, 2})
                              .File(kGraphFile, Graph())
                              .Build();
  const RunFacts target = Unfused().Op("Split", {4}, {2, 2}).Build();
  const Mapping mapping = Must(MatchGeWithGe(golden, target, {}));
  EXPECT_THAT(
      PairsOf(mapping),
      UnorderedElementsAre("Add.input.0=AddMul_1Relu_2.input.0",
                           "Add.input.1=AddMul_1Relu_2.input.1",
                           "Mul_1.input.1=AddMul_1Relu_2.input.2",
                           "Relu_2.output.0=AddMul_1Relu_2.output.0",
                           "Split=Split", "Add.output.0=", "Mul_1.input.0=",
                           "Mul_1.output.0=", "Relu_2.input.0="));
  EXPECT_THAT(LeftOf(mapping), ElementsAre("target 4: inside a fused op"));
}

TEST(GeGeTest, AnInputOfAFusedGoldenOpMayBeThatOfSeveralParts) {
  const RunFacts golden = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4, 4}, {4})
                              .File(kGraphFile, Graph())
                              .Build();
  const Mapping mapping = Must(MatchGeWithGe(golden, Unfused().Build(), {}));
  EXPECT_EQ(mapping.pair_count, 4u);
  EXPECT_THAT(PairsOf(mapping),
              IsSupersetOf({"Add.input.0=AddMul_1Relu_2.input.0",
                            "Add.input.1=AddMul_1Relu_2.input.1",
                            "Mul_1.input.1=AddMul_1Relu_2.input.0"}));
}

TEST(GeGeTest, WhatAFusedGoldenOpOrItsPartsLackIsMissing) {
  const RunFacts golden = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4, 4, 4}, {4})
                              .File(kGraphFile, Graph())
                              .Build();
  const RunFacts no_last =
      RunBuilder("ge").Op("Add", {4, 4}, {4}).Op("Mul_1", {4, 4}, {4}).Build();
  EXPECT_THAT(
      LeftOf(Must(MatchGeWithGe(golden, no_last, {}))),
      ElementsAre("target 3: inside a fused op",
                  "golden 1: the target run lacks the op that is fused into it "
                  "(lacks)"));
  const RunFacts fewer = RunBuilder("ge")
                             .Op("AddMul_1Relu_2", {4}, {4})
                             .File(kGraphFile, Graph())
                             .Build();
  EXPECT_THAT(
      LeftOf(Must(MatchGeWithGe(fewer, Unfused().Build(), {}))),
      ElementsAre(
          "target 3: no argument of the other op corresponds to it (lacks)",
          "target 4: inside a fused op",
          "golden 1: its ops have other inputs than it has (lacks)"));
}

TEST(GeGeTest, OpsOfOneNameBelongTogether) {
  const RunFacts target = RunBuilder("ge")
                              .Op("Add", {4, 4}, {4})
                              .Op("Mul_1", {4}, {4})
                              .Op("New", {4}, {4})
                              .Build();
  EXPECT_THAT(PairsOf(Must(MatchGeWithGe(Unfused().Build(), target, {}))),
              ElementsAre("Add=Add", "Mul_1.input.0=Mul_1.input.0",
                          "Mul_1.output.0=Mul_1.output.0"));
}

TEST(GeGeTest, WhatOneRunLacksIsMissing) {
  const RunFacts target = RunBuilder("ge")
                              .Op("Add", {4, 4, 1}, {4})
                              .Op("Mul_1", {4, 4}, {})
                              .Op("New", {4}, {4})
                              .Build();
  const RunFacts golden = Unfused().Op("trans_Cast_9", {4}, {4}).Build();
  const Mapping mapping = Must(MatchGeWithGe(golden, target, {}));
  EXPECT_EQ(mapping.pair_count, 5u);
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre(
          "target 1: no argument of the other op corresponds to it (lacks)",
          "target 2: the golden run has no op with its name or with the names "
          "of its parts (lacks)",
          "golden 1: no argument of the other op corresponds to it (lacks)",
          "golden 2: the target run has no such op (lacks)",
          "golden 2: inserted by GE; only comparable with the same run"));
}

TEST(GeGeTest, ArgumentsThatAFusedOpLacksAreMissing) {
  const RunFacts target = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4}, {})
                              .File(kGraphFile, Graph())
                              .Build();
  const Mapping mapping = Must(MatchGeWithGe(Unfused().Build(), target, {}));
  EXPECT_EQ(mapping.pair_count, 0u);
  EXPECT_THAT(
      LeftOf(mapping),
      ElementsAre(
          "target 1: its ops have other inputs than it has (lacks)",
          "golden 3: no argument of the other op corresponds to it (lacks)",
          "golden 5: inside a fused op"));
}

TEST(GeGeTest, CastOfTheGraphThatIsNotRecordedIsMissing) {
  const std::string graph = GraphOpText("Cast_1", {"x:0"}, {});
  const RunFacts with =
      RunBuilder("ge").Op("Cast_1", {4}, {4}).File(kGraphFile, graph).Build();
  const RunFacts without =
      RunBuilder("ge").Op("B", {4}, {4}).File(kGraphFile, graph).Build();
  EXPECT_THAT(PairsOf(Must(MatchGeWithGe(with, without, {}))), IsEmpty());
  EXPECT_THAT(PairsOf(Must(MatchGeWithGe(without, with, {}))), IsEmpty());
}

TEST(GeGeTest, MissingPartShiftsNothing) {
  const RunFacts golden = RunBuilder("ge").Op("Mul_1", {4, 4}, {4}).Build();
  const RunFacts target = RunBuilder("ge")
                              .Op("AddMul_1Relu_2", {4, 4, 4}, {4})
                              .File(kGraphFile, Graph())
                              .Build();
  const Mapping mapping = Must(MatchGeWithGe(golden, target, {}));
  EXPECT_THAT(PairsOf(mapping),
              IsSupersetOf({"AddMul_1Relu_2.input.0=Add.input.0",
                            "AddMul_1Relu_2.input.1=Add.input.1",
                            "AddMul_1Relu_2.input.2=Mul_1.input.1",
                            "AddMul_1Relu_2.output.0=Relu_2.output.0"}));
  EXPECT_EQ(mapping.pair_count, 1u);
  EXPECT_THAT(LeftOf(mapping),
              IsSupersetOf({std::string("target 3: the golden run lacks the op "
                                        "that is fused into it (lacks)")}));
  // msit uses the outputs of the previous part.
  EXPECT_THAT(
      PairsOf(Must(MatchGeWithGe(golden, target, {.is_compat = true}))),
      IsSupersetOf({std::string("AddMul_1Relu_2.output.0=Mul_1.output.0")}));
}

TEST(GeGeTest, WithoutAGraphOnlyOutputsAreKnown) {
  const RunFacts target =
      RunBuilder("ge").Op("AddMul_1Relu_2", {4, 4, 4}, {4}).Build();
  const Mapping mapping = Must(MatchGeWithGe(Unfused().Build(), target, {}));
  EXPECT_EQ(mapping.pair_count, 1u);
  EXPECT_EQ(mapping.notes.size(), 1u);
  EXPECT_THAT(
      PairsOf(mapping),
      IsSupersetOf({std::string("AddMul_1Relu_2.output.0=Relu_2.output.0")}));
}

TEST(GeGeTest, LargerCallAloneCountsAsInMsit) {
  const RunFacts golden =
      RunBuilder("ge").Op("A", {4}, {4}).Op("A", {8}, {8}, 1).Build();
  const RunFacts target = RunBuilder("ge").Op("A", {8}, {8}).Build();
  EXPECT_THAT(PairsOf(Must(MatchGeWithGe(golden, target, {}))),
              ElementsAre("A=A"));
  EXPECT_THAT(
      PairsOf(Must(MatchGeWithGe(golden, target, {.is_compat = true}))),
      ElementsAre("A#0.input.0=A#1.input.0", "A#0.output.0=A#1.output.0"));
}

TEST(GeSelfTest, InputsOfConversionsAreBesideTheirOutputs) {
  const RunFacts run = RunBuilder("ge")
                           .Op("Add", {4, 4}, {4})
                           .Op("trans_TransData_7", {4}, {4})
                           .File(kGraphFile, Graph())
                           .Build();
  const Mapping mapping = Must(Match(Matcher::kGeSelf, run, run, {}));
  EXPECT_THAT(PairsOf(mapping),
              UnorderedElementsAre(
                  "Add=", "=Add", "trans_TransData_7.input.0=",
                  "trans_TransData_7.output.0=trans_TransData_7.input.0",
                  "=trans_TransData_7.output.0"));
  const RunFacts other = Unfused().Build();
  RunFacts renamed = other;
  renamed.run = "another";
  EXPECT_TRUE(absl::IsInvalidArgument(
      Match(Matcher::kGeSelf, renamed, run, {}).status()));
}

TEST(GeSelfTest, ConversionThatLacksASideIsMissing) {
  const RunFacts run = RunBuilder("ge")
                           .Op("trans_Cast_1", {4}, {})
                           .Op("trans_Cast_2", {}, {4})
                           .Build();
  const Mapping mapping = Must(Match(Matcher::kGeSelf, run, run, {}));
  EXPECT_THAT(
      LeftOf(mapping),
      UnorderedElementsAre(
          "target 1: only ops inserted by GE are compared with themselves",
          "target 1: its counterpart was not recorded (lacks)",
          "golden 1: its counterpart was not recorded (lacks)",
          "golden 1: only ops inserted by GE are compared with themselves"));
}

TEST(GeSelfTest, CastOfTheGraphIsNoConversion) {
  const RunFacts run = RunBuilder("ge")
                           .Op("Cast_1", {4}, {4})
                           .File(kGraphFile, GraphOpText("Cast_1", {}, {}))
                           .Build();
  EXPECT_EQ(Must(Match(Matcher::kGeSelf, run, run, {})).pair_count, 0u);
}

}  // namespace
}  // namespace msitd::match
