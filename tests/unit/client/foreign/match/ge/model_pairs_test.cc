// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/model_pairs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/foreign/match/match.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

std::string FileOf(const std::string& graph) {
  return fmt::format("dynamo_original_graph_{}_rank_0_pid_1_ts_2.txt", graph);
}

// Returns an op of a graph that is the first output of a node.
std::string OpText(const std::string& op, const std::string& node) {
  return fmt::format(
      "op {{ name: \"{}\" output_desc {{ attr {{ key: \"_fx_tensor_name\" "
      "value {{ s: \"{}.OUTPUT.0\" }} }} }} }}\n",
      op, node);
}

// Returns a run with one op for each name, which has one output.
RunBuilder RunOf(const std::string& source,
                 const std::vector<std::string>& ops) {
  RunBuilder out(source);
  for (const std::string& op : ops) out.Op(op, {}, {4});
  return out;
}

Mapping MatchedBy(Matcher matcher, const RunFacts& golden,
                  const RunFacts& target, bool is_compat = false) {
  auto mapping = Match(matcher, golden, target, {.is_compat = is_compat});
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  return mapping.ok() ? *std::move(mapping) : Mapping();
}

TEST(ModelPairsTest, GraphsArePairedByTheirNumbersNotByThoseOfModels) {
  const RunFacts fx = RunOf("fx", {"graph_1/n", "graph_2/n"}).Build();
  const RunFacts ge = RunOf("ge", {"graph_1/5/A", "graph_2/3/A"})
                          .File(FileOf("1"), OpText("A", "n"))
                          .File(FileOf("2"), OpText("A", "n"))
                          .Build();
  const Mapping mapping = MatchedBy(Matcher::kGeFx, fx, ge);
  EXPECT_THAT(PairsOf(mapping),
              ElementsAre("graph_1/5/A=graph_1/n", "graph_2/3/A=graph_2/n"));
  EXPECT_THAT(mapping.notes, IsEmpty());
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, ge, true)),
              ElementsAre("graph_1/5/A=graph_2/n", "graph_2/3/A=graph_1/n"));
}

TEST(ModelPairsTest, TextIsThatOfTheNumberEvenIfAnotherKnowsAsMuch) {
  const RunFacts fx = RunOf("fx", {"graph_2/n", "graph_2/m"}).Build();
  const RunFacts ge =
      RunOf("ge", {"graph_2_0/2/A", "graph_2_0/2/B"})
          .File(FileOf("1"), OpText("A", "n") + OpText("B", "m"))
          .File(FileOf("2"), OpText("A", "m") + OpText("B", "n"))
          .Build();
  EXPECT_THAT(
      PairsOf(MatchedBy(Matcher::kGeFx, fx, ge)),
      ElementsAre("graph_2_0/2/A=graph_2/m", "graph_2_0/2/B=graph_2/n"));
}

TEST(ModelPairsTest, TextsThatKnowTheSameAreNoAnswer) {
  const RunFacts fx = RunOf("fx", {"n"}).Build();
  const RunFacts ge = RunOf("ge", {"A", "trans_Cast_1"})
                          .File(FileOf("1"), OpText("A", "n"))
                          .File(FileOf("2"), OpText("A", "n"))
                          .Build();
  const Mapping mapping = MatchedBy(Matcher::kGeFx, fx, ge);
  EXPECT_EQ(mapping.pair_count, 0u);
  EXPECT_THAT(LeftOf(mapping),
              Contains("target 2: the text of its graph is unknown (lacks)"));
  EXPECT_THAT(mapping.notes, Contains("1 of 1 models of GE: the text of its "
                                      "graph is unknown (the only one)"));
  EXPECT_THAT(LeftOf(MatchedBy(Matcher::kGeSelf, ge, ge)),
              Contains("target 1: the text of its graph is unknown (lacks)"));
}

TEST(ModelPairsTest, TextOfARunThatDoesNotNameItsGraphKnowsMostOps) {
  const RunFacts fx = RunOf("fx", {"graph_1/n", "graph_2/n"}).Build();
  const RunFacts ge =
      RunOf("ge", {"A", "BC"})
          .File(FileOf("1"), OpText("A", "n"))
          .File(FileOf("2"),
                OpText("A", "n") + OpText("B", "m") + OpText("C", "o"))
          .Build();
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, ge)),
              IsSupersetOf({std::string("A=graph_2/n")}));
}

TEST(ModelPairsTest, OneFxGraphIsOfTheModelWithItsNumber) {
  const RunFacts fx = RunOf("fx", {"graph_2/n"}).Build();
  const RunFacts ge = RunOf("ge", {"graph_1/1/A", "graph_2/2/A"})
                          .File(FileOf("1"), OpText("A", "n"))
                          .File(FileOf("2"), OpText("A", "n"))
                          .Build();
  const Mapping mapping = MatchedBy(Matcher::kGeFx, fx, ge);
  EXPECT_THAT(PairsOf(mapping), ElementsAre("graph_2/2/A=graph_2/n"));
  EXPECT_THAT(LeftOf(mapping),
              ElementsAre("target 1: its FX graph is unknown (lacks)"));
  EXPECT_THAT(
      mapping.notes,
      ElementsAre("1 of 2 models of GE: its FX graph is unknown (graph_1/1/)"));
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, ge, true)),
              ElementsAre("graph_1/1/A=graph_2/n", "graph_2/2/A=graph_2/n"));
}

TEST(ModelPairsTest, OneFxGraphWithoutANumberIsOfTheTextWithMostOfItsNodes) {
  const RunFacts fx = RunOf("fx", {"n", "m"}).Build();
  RunBuilder ge = RunOf("ge", {"graph_1/1/A", "graph_2/2/A"});
  ge.File(FileOf("1"), OpText("A", "n"));
  RunBuilder same = ge;
  const RunFacts with_more =
      ge.File(FileOf("2"), OpText("A", "n") + OpText("B", "m")).Build();
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, with_more)),
              ElementsAre("graph_2/2/A=n"));
  const RunFacts with_as_many =
      same.File(FileOf("2"), OpText("A", "m")).Build();
  const Mapping mapping = MatchedBy(Matcher::kGeFx, fx, with_as_many);
  EXPECT_EQ(mapping.pair_count, 0u);
  EXPECT_THAT(mapping.notes, ElementsAre(HasSubstr("2 of 2 models of GE")));
}

// The models in a batch of tokens make no difference.
TEST(ModelPairsTest, OneFxGraphWithoutANumberIsNotThatOfTheModelThatIsLeft) {
  const RunFacts fx = RunOf("fx", {"n", "m"}).Build();
  RunBuilder ge = RunOf("ge", {"graph_1/1/A"});
  ge.File(FileOf("1"), OpText("A", "n"));
  ge.File(FileOf("2"), OpText("A", "n") + OpText("B", "m"));
  EXPECT_EQ(MatchedBy(Matcher::kGeFx, fx, ge.Build()).pair_count, 0u);
}

TEST(ModelPairsTest, FxGraphsWithoutNumbersAreInTheOrderOfNumbers) {
  const RunFacts fx = RunOf("fx", {"gm/1/n", "gm/2/n"}).Build();
  RunBuilder ge = RunOf("ge", {"graph_3/5/A", "graph_8/4/A"});
  ge.File(FileOf("3"), OpText("A", "n")).File(FileOf("8"), OpText("A", "n"));
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, ge.Build())),
              ElementsAre("graph_3/5/A=gm/1/n", "graph_8/4/A=gm/2/n"));
  const RunFacts more =
      RunOf("ge", {"graph_1/1/A", "graph_2/2/A", "graph_3/3/A"})
          .File(FileOf("1"), OpText("A", "n"))
          .File(FileOf("2"), OpText("A", "n"))
          .File(FileOf("3"), OpText("A", "n"))
          .Build();
  EXPECT_EQ(MatchedBy(Matcher::kGeFx, fx, more).pair_count, 0u);
}

TEST(ModelPairsTest, TextOfATextFileWithoutANumberIsFoundByOps) {
  const RunFacts fx = RunOf("fx", {"gm/1/n", "gm/2/n"}).Build();
  const RunFacts ge = RunOf("ge", {"g/1/A", "g/2/B"})
                          .File(FileOf("b"), OpText("A", "n"))
                          .File(FileOf("a_1"), OpText("B", "n"))
                          .File(FileOf("c"), OpText("C", "n"))
                          .Build();
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeFx, fx, ge)),
              ElementsAre("g/1/A=gm/1/n", "g/2/B=gm/2/n"));
}

TEST(ModelPairsTest, ATextIsOfOneModelAlone) {
  const RunFacts fx = RunOf("fx", {"gm/1/n", "gm/2/n"}).Build();
  const RunFacts ge = RunOf("ge", {"g/1/A", "g/2/A"})
                          .File(FileOf("1"), OpText("A", "n"))
                          .Build();
  const Mapping mapping = MatchedBy(Matcher::kGeFx, fx, ge);
  EXPECT_EQ(mapping.pair_count, 0u);
  EXPECT_THAT(mapping.notes, Contains(HasSubstr("(g/1/, g/2/)")));
}

TEST(ModelPairsTest, GoldenModelHasTheNumberOfTheTarget) {
  const RunFacts golden =
      RunOf("ge", {"graph_1/9/A", "graph_2/4/A", "graph_4/1/A"}).Build();
  const RunFacts target =
      RunOf("ge", {"graph_1/5/A", "graph_2/6/A", "graph_3/7/A"}).Build();
  const Mapping mapping = MatchedBy(Matcher::kGeGe, golden, target);
  EXPECT_THAT(PairsOf(mapping), ElementsAre("graph_1/5/A=graph_1/9/A",
                                            "graph_2/6/A=graph_2/4/A"));
  EXPECT_THAT(
      LeftOf(mapping),
      UnorderedElementsAre("target 1: its golden model is unknown (lacks)",
                           "golden 1: the target run has no such op (lacks)"));
  EXPECT_THAT(PairsOf(MatchedBy(Matcher::kGeGe, golden, target, true)),
              ElementsAre("graph_1/5/A=graph_4/1/A", "graph_2/6/A=graph_2/4/A",
                          "graph_3/7/A=graph_1/9/A"));
}

TEST(ModelPairsTest, ModelsOfOneNumberAreInTheirOrderIfAsMany) {
  const RunFacts golden = RunOf("ge", {"graph_1/9/A", "graph_1/4/A"}).Build();
  const RunFacts target = RunOf("ge", {"graph_1/5/A", "graph_1/6/A"}).Build();
  EXPECT_THAT(
      PairsOf(MatchedBy(Matcher::kGeGe, golden, target)),
      ElementsAre("graph_1/5/A=graph_1/4/A", "graph_1/6/A=graph_1/9/A"));
  const RunFacts one = RunOf("ge", {"graph_1/9/A"}).Build();
  EXPECT_EQ(MatchedBy(Matcher::kGeGe, one, target).pair_count, 0u);
}

TEST(ModelPairsTest, UnknownTextHidesNoInputOfAFusedOp) {
  const RunFacts golden =
      RunBuilder("ge").Op("A", {4}, {4}).Op("B", {4}, {4}).Build();
  const RunFacts target = RunBuilder("ge")
                              .Op("AB", {4}, {4})
                              .Op("trans_Cast_1", {}, {4})
                              .File(FileOf("1"), OpText("A", "n"))
                              .File(FileOf("2"), OpText("B", "n"))
                              .Build();
  EXPECT_THAT(LeftOf(MatchedBy(Matcher::kGeGe, golden, target)),
              Contains("target 2: the text of its graph is unknown (lacks)"));
}

}  // namespace
}  // namespace msitd::match
