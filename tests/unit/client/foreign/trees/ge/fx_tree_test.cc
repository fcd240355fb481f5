// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/fx_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns times as digits, in ascending order.
std::string Time(int number) {
  return fmt::format("202401250311187873{:02}", number);
}

void WriteTensor(const MadeTree& made, const std::string& folder,
                 const std::string& name, int time = 0) {
  made.Write(folder + "/" + name + "." + Time(time) + ".npy");
}

TEST(FxTreeTest, NewestLayoutHasRanksAndStepsFrom0) {
  const MadeTree made;
  const std::string graph = "worldsize2_global_rank1/graph_1/";
  WriteTensor(made, graph + "10", "mm-aten.mm.default.OUTPUT.0", 3);
  WriteTensor(made, graph + "2", "mm-aten.mm.default.OUTPUT.0", 2);
  WriteTensor(made, graph + "2", "mm-aten.mm.default.INPUT.10", 2);
  WriteTensor(made, graph + "2", "mm-aten.mm.default.INPUT.2", 2);
  WriteTensor(made, graph + "2", "mm-aten.mm.default.INPUT.1.10", 2);
  WriteTensor(made, graph + "2", "mm-aten.mm.default.INPUT.1.9", 2);
  WriteTensor(made, graph + "2", "z-aten.relu.default.OUTPUT.0", 1);
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kFx);
  EXPECT_EQ(tree->world_size(), 2);
  EXPECT_THAT(tree->ranks(), ElementsAre(1));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("1 - 2 z-aten.relu.default#0 output:0",
                          "1 - 2 mm-aten.mm.default#0 input:1.9",
                          "1 - 2 mm-aten.mm.default#0 input:1.10",
                          "1 - 2 mm-aten.mm.default#0 input:2",
                          "1 - 2 mm-aten.mm.default#0 input:10",
                          "1 - 2 mm-aten.mm.default#0 output:0",
                          "1 - 10 mm-aten.mm.default#0 output:0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(FxTreeTest, OlderLayoutsHaveStepsFrom1) {
  const struct {
    const char* around;
    const char* opened;
  } kCases[] = {{"msit_fx_dump/data_dump/", ""},
                {"msit_fx_dump/data_dump/", "msit_fx_dump"},
                {"msit_fx_dump/data_dump/", "msit_fx_dump/data_dump"},
                {"", ""}};
  for (const auto& [around, opened] : kCases) {
    const MadeTree made;
    const std::string folder = around;
    WriteTensor(made, folder + "1/gm_" + Time(0) + "_dump", "a-b.OUTPUT.0", 1);
    WriteTensor(made, folder + "2/gm_" + Time(0) + "_dump", "a-b.OUTPUT.0", 2);
    const auto tree = made.Open(opened);
    ASSERT_NE(tree, nullptr) << opened;
    EXPECT_THAT(DescribeAll(*tree),
                ElementsAre("0 - 0 a-b#0 output:0", "0 - 1 a-b#0 output:0"))
        << opened;
    EXPECT_THAT(Problems(*tree, made), IsEmpty()) << opened;
  }
}

TEST(FxTreeTest, FoldersInALayoutAreTreesToo) {
  const MadeTree made;
  WriteTensor(made, "worldsize2_global_rank1/graph_1/7", "a-b.OUTPUT.0");
  for (const char* path :
       {"worldsize2_global_rank1", "worldsize2_global_rank1/graph_1",
        "worldsize2_global_rank1/graph_1/7"}) {
    const auto tree = made.Open(path);
    ASSERT_NE(tree, nullptr) << path;
    EXPECT_THAT(DescribeAll(*tree), ElementsAre("1 - 7 a-b#0 output:0"));
  }
  const std::string gm = "data_dump/3/gm_" + Time(0) + "_dump";
  WriteTensor(made, gm, "a-b.OUTPUT.0");
  for (const std::string& path : {std::string("data_dump/3"), gm}) {
    const auto tree = made.Open(path);
    ASSERT_NE(tree, nullptr) << path;
    EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 2 a-b#0 output:0"));
  }
}

TEST(FxTreeTest, WithoutStepsCallsAreCounted) {
  const MadeTree made;
  const std::string gm = "gm_" + Time(0) + "_dump";
  WriteTensor(made, gm, "a-b.OUTPUT.0", 9);
  WriteTensor(made, gm, "a-b.INPUT.0", 9);
  WriteTensor(made, gm, "a-b.OUTPUT.0", 1);
  WriteTensor(made, gm, "a-b.INPUT.0", 1);
  WriteTensor(made, gm, "c-d.INPUT.0", 5);
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 a-b#0 input:0", "0 - 0 a-b#0 output:0",
                          "0 - 0 c-d#0 input:0", "0 - 0 a-b#1 input:0",
                          "0 - 0 a-b#1 output:0"));
}

TEST(FxTreeTest, Step0OfAnOlderLayoutIsAProblem) {
  const MadeTree made;
  const std::string gm = "/gm_" + Time(0) + "_dump";
  WriteTensor(made, "0" + gm, "a-b.OUTPUT.0");
  WriteTensor(made, "1" + gm, "a-b.OUTPUT.0");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 a-b#0 output:0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre("0" + gm + ": step 0: steps of this layout begin at 1"));
}

TEST(FxTreeTest, OpsOfSeveralGraphsSayTheirs) {
  const MadeTree made;
  WriteTensor(made, "worldsize1_global_rank0/graph_1/0", "a-b.OUTPUT.0", 2);
  WriteTensor(made, "worldsize1_global_rank0/graph_2/0", "a-b.OUTPUT.0", 1);
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 graph_2/a-b#0 output:0",
                                              "0 - 0 graph_1/a-b#0 output:0"));
}

TEST(FxTreeTest, OpsOfOneGraphSayTheirsIfAsked) {
  const TreeOptions options{.names_graphs = true};
  const MadeTree made;
  WriteTensor(made, "worldsize1_global_rank0/graph_2/0", "a-b.OUTPUT.0", 1);
  const auto tree = made.Open("", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->graphs(), ElementsAre("graph_2"));
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 graph_2/a-b#0 output:0"));

  // A time in a name is not the number of a graph.
  const MadeTree other;
  for (const int number : {1, 2}) {
    WriteTensor(other, fmt::format("1/gm_{}_dump", Time(number)),
                "a-b.OUTPUT.0", number);
  }
  const auto numbered = other.Open("", options);
  ASSERT_NE(numbered, nullptr);
  EXPECT_THAT(numbered->graphs(), IsEmpty());
  EXPECT_THAT(DescribeAll(*numbered), ElementsAre("0 - 0 gm/1/a-b#0 output:0",
                                                  "0 - 0 gm/2/a-b#0 output:0"));
}

TEST(FxTreeTest, GraphsThatAreNamedByATimeAreNumbered) {
  const MadeTree made;
  const auto gm = [](int number) { return "gm_" + Time(number) + "_dump"; };
  WriteTensor(made, "1/" + gm(1), "a-b.OUTPUT.0", 1);
  WriteTensor(made, "1/" + gm(2), "a-b.OUTPUT.0", 2);
  // In this step, only the second graph runs.
  WriteTensor(made, "2/" + gm(2), "a-b.OUTPUT.0", 3);
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 graph_1/a-b#0 output:0",
                                              "0 - 0 graph_2/a-b#0 output:0",
                                              "0 - 1 graph_2/a-b#0 output:0"));

  // Names that change in each step are numbered within the step.
  const MadeTree other;
  WriteTensor(other, "1/" + gm(1), "a-b.OUTPUT.0", 1);
  WriteTensor(other, "1/" + gm(2), "a-b.OUTPUT.0", 2);
  WriteTensor(other, "2/" + gm(3), "a-b.OUTPUT.0", 3);
  WriteTensor(other, "2/" + gm(4), "a-b.OUTPUT.0", 4);
  const auto tree_of_other = other.Open();
  ASSERT_NE(tree_of_other, nullptr);
  EXPECT_THAT(DescribeAll(*tree_of_other),
              ElementsAre("0 - 0 graph_1/a-b#0 output:0",
                          "0 - 0 graph_2/a-b#0 output:0",
                          "0 - 1 graph_1/a-b#0 output:0",
                          "0 - 1 graph_2/a-b#0 output:0"));
}

TEST(FxTreeTest, EachDeviceHasAGraphIfTheUserSaysSo) {
  const MadeTree made;
  const auto gm = [](int number) { return "gm_" + Time(number) + "_dump"; };
  for (const int number : {1, 2}) {
    WriteTensor(made, "1/" + gm(number), "a-b.OUTPUT.0", number);
    WriteTensor(made, "2/" + gm(number), "a-b.OUTPUT.0", number);
  }
  const auto tree = made.Open("", {.devices_are_ranks = true});
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 a-b#0 output:0", "0 - 1 a-b#0 output:0",
                          "1 - 0 a-b#0 output:0", "1 - 1 a-b#0 output:0"));
  const auto one = made.Open("", {.devices_are_ranks = true, .device_rank = 1});
  ASSERT_NE(one, nullptr);
  EXPECT_THAT(DescribeAll(*one),
              ElementsAre("1 - 0 a-b#0 output:0", "1 - 1 a-b#0 output:0"));
  // A folder that names the rank takes precedence.
  const MadeTree newer;
  WriteTensor(newer, "worldsize2_global_rank1/graph_1/0", "a-b.OUTPUT.0", 1);
  const auto of_rank = newer.Open("", {.devices_are_ranks = true});
  ASSERT_NE(of_rank, nullptr);
  EXPECT_THAT(of_rank->ranks(), ElementsAre(1));
}

TEST(FxTreeTest, ConvertedTensorsAreEntries) {
  const MadeTree made;
  const std::string step = "worldsize1_global_rank0/graph_1/0";
  WriteTensor(made, step, "a-b.OUTPUT.0");
  made.Write(step + "/a-b.INPUT.0." + Time(0) + "_min_max.npy");
  made.Write(step + "/a-b.OUTPUT.0." + Time(0) + "_min_max.npy");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 a-b#0 input:0", "0 - 0 a-b#0 output:0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(
          step + "/a-b.OUTPUT.0." + Time(0) +
          "_min_max.npy: the dump that it was made from is next to it"));
}

TEST(FxTreeTest, OtherFilesAreProblems) {
  const MadeTree made;
  const std::string step = "worldsize1_global_rank0/graph_1/0";
  WriteTensor(made, step, "a-b.OUTPUT.0");
  made.Write(step + "/other.npy");
  made.Write("notes.txt", "");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 a-b#0 output:0"));
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre("notes.txt: its name is not that of a dump",
                          step + "/other.npy: its name is not that of a dump"));
}

TEST(FxTreeTest, DumpsOfBothModesAreAmbiguous) {
  const MadeTree made;
  WriteTensor(made, "fx/1/gm_" + Time(0) + "_dump", "a-b.OUTPUT.0");
  made.Write("ge/20250901120005/0/g/1/0/T.Add.1.2.1756699200000001", "");
  const auto tree = OpenTree(made.path(), {});
  EXPECT_EQ(tree.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(tree.status())),
              ::testing::HasSubstr("a tree of ge or fx"));
  EXPECT_NE(made.Open("fx"), nullptr);
}

}  // namespace
}  // namespace msitd::trees
