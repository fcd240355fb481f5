// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/ge_tree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/unit/client/foreign/formats/ge_dump_bytes.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTime[] = "1756699200000001";

// Returns the dump of an op without tensors.
std::string DumpOf(const std::string& op) {
  formats::ge::DumpData head;
  head.set_version("2.0");
  head.set_dump_time(1);
  head.set_op_name(op);
  return formats::GeDumpOf(head, "");
}

// Writes a dump with the file name that CANN uses for `op`.
void WriteDump(const MadeTree& made, const std::string& folder,
               const std::string& op, const std::string& time = kTime) {
  made.Write(folder + "/T." + op + ".1.2." + time, DumpOf(op));
}

std::vector<std::string> Attachments(const Tree& tree) {
  std::vector<std::string> out;
  for (const TreeAttachment& one : tree.attachments()) out.push_back(one.name);
  return out;
}

TEST(GeTreeTest, NewerLayoutHasRanks) {
  const MadeTree made;
  const std::string rank0 = "worldsize2_global_rank0/20250901120005/0/graph_1/";
  const std::string rank1 = "worldsize2_global_rank1/20250901120006/1/graph_1/";
  WriteDump(made, rank1 + "4/0", "Add");
  WriteDump(made, rank0 + "3/10", "Add");
  WriteDump(made, rank0 + "3/2", "Mul", "1756699200000009");
  WriteDump(made, rank0 + "3/2", "Add", "1756699200000010");
  made.Write("dynamo_original_graph_1_rank_0_pid_2_ts_3.txt", "name: 1");
  made.Write("dynamo_optimized_graph_1_rank_1_pid_2_ts_3.txt", "name: 1");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kGe);
  EXPECT_EQ(tree->world_size(), 2);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(Attachments(*tree),
              ElementsAre("dynamo_original_graph_1_rank_0_pid_2_ts_3.txt",
                          "dynamo_optimized_graph_1_rank_1_pid_2_ts_3.txt"));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 2 Mul#0", "0 npu:0 2 Add#0",
                          "0 npu:0 10 Add#0", "1 npu:1 0 Add#0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(GeTreeTest, OlderLayoutIsOfRank0AndHasDevices) {
  const MadeTree made;
  const std::string time = "dump_20250901_120000/20250901120005/";
  WriteDump(made, time + "0/graph_1/1/0", "Add", "1756699200000002");
  WriteDump(made, time + "1/graph_1/2/0", "Add", "1756699200000001");
  WriteDump(made, time + "1/graph_1/2/1", "Add");
  made.Write("dump_20250901_120000/dynamo_original_graph_1_rank_0_pid_2.txt",
             "");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->world_size(), 0);
  EXPECT_THAT(tree->ranks(), ElementsAre(0));
  EXPECT_THAT(Attachments(*tree),
              ElementsAre("dynamo_original_graph_1_rank_0_pid_2.txt"));
  EXPECT_THAT(
      DescribeAll(*tree),
      ElementsAre("0 npu:1 0 Add#0", "0 npu:0 0 Add#0", "0 npu:1 1 Add#0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(GeTreeTest, DevicesAreRanksIfTheUserSaysSo) {
  const MadeTree made;
  const std::string time = "20250901120005/";
  for (const char* const device : {"2", "10"}) {
    WriteDump(made, time + device + "/graph_1/1/0", "Add");
  }
  for (const int rank : {8, 9}) {
    made.Write(fmt::format("dynamo_original_graph_1_rank_{}_pid_2.txt", rank),
               "");
  }
  const auto tree = made.Open("", {.devices_are_ranks = true});
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_EQ(Attachments(*tree).size(), 2u);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:2 0 Add#0", "1 npu:10 0 Add#0"));
  const auto one = made.Open("", {.devices_are_ranks = true, .device_rank = 1});
  ASSERT_NE(one, nullptr);
  EXPECT_THAT(Attachments(*one),
              ElementsAre("dynamo_original_graph_1_rank_9_pid_2.txt"));
  EXPECT_THAT(DescribeAll(*one), ElementsAre("1 npu:10 0 Add#0"));
}

TEST(GeTreeTest, FoldersInALayoutAreTreesToo) {
  const MadeTree made;
  const std::string rank = "msit_ge_dump/worldsize2_global_rank1";
  WriteDump(made, rank + "/20250901120005/0/graph_1/3/7", "Add");
  made.Write("msit_ge_dump/dynamo_original_graph_1_rank_0_pid_2.txt", "");
  made.Write("msit_ge_dump/dynamo_original_graph_1_rank_1_pid_2.txt", "");
  made.Write("dynamo_original_graph_9_rank_1_pid_2.txt", "");
  for (const std::string below :
       {"", "/20250901120005", "/20250901120005/0/graph_1",
        "/20250901120005/0/graph_1/3/7",
        "/20250901120005/0/graph_1/3/7/T.Add.1.2.1756699200000001"}) {
    const auto tree = made.Open(rank + below);
    ASSERT_NE(tree, nullptr) << below;
    EXPECT_THAT(Attachments(*tree),
                ElementsAre("dynamo_original_graph_1_rank_1_pid_2.txt"));
    EXPECT_THAT(DescribeAll(*tree), ElementsAre("1 npu:0 7 Add#0")) << below;
    EXPECT_THAT(Problems(*tree, made), IsEmpty()) << below;
  }
}

TEST(GeTreeTest, TheContainerKnowsTheNameOfTheOp) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0/";
  made.Write(token + "T.a_b_c.1.2.1756699200000001", DumpOf("a/b.c"));
  made.Write(token + "T.no_name.1.2.1756699200000002", DumpOf(""));
  made.Write(token + "T.a_b_cDebug.1.2.1756699200000003", DumpOf("a/b.c"));
  made.Write(token + "T.long.1.2.1756699200000004", DumpOf("other name"));
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 a/b.c#0", "0 npu:0 0 no_name#0",
                          "0 npu:0 0 a/b.cDebug#0", "0 npu:0 0 other name#0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(GeTreeTest, AnOpThatComesTwiceIsCalledTwice) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0";
  WriteDump(made, token, "Add", "1756699200000009");
  WriteDump(made, token, "Add", "1756699200000010");
  WriteDump(made, token, "Add", "1756699200000001.0.0.1.0");
  WriteDump(made, token, "Add", "1756699200000001.0.0.0.0");
  WriteDump(made, token, "Mul", "1756699200000005");
  WriteDump(made, "20250901120005/0/graph_1/3/1", "Add");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  std::vector<std::string> files;
  while (const TreeEntry* entry = tree->Next()) {
    files.push_back(Describe(*entry) + " " +
                    entry->file.substr(entry->file.find("T.") + 6));
  }
  EXPECT_THAT(files, ElementsAre("0 npu:0 0 Add#0 1.2.1756699200000001.0.0.0.0",
                                 "0 npu:0 0 Add#1 1.2.1756699200000001.0.0.1.0",
                                 "0 npu:0 0 Mul#0 1.2.1756699200000005",
                                 "0 npu:0 0 Add#2 1.2.1756699200000009",
                                 "0 npu:0 0 Add#3 1.2.1756699200000010",
                                 "0 npu:0 1 Add#0 1.2.1756699200000001"));
}

TEST(GeTreeTest, OpsOfSeveralGraphsSayTheirs) {
  const MadeTree made;
  WriteDump(made, "20250901120005/0/graph_1/3/0", "Add", "1756699200000001");
  WriteDump(made, "20250901120005/0/graph_2/4/0", "Add", "1756699200000002");
  WriteDump(made, "20250901120005/0/graph_2/5/0", "Add", "1756699200000003");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 graph_1/3/Add#0",
                                              "0 npu:0 0 graph_2/4/Add#0",
                                              "0 npu:0 0 graph_2/5/Add#0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(GeTreeTest, OpsOfOneGraphSayTheirsIfAsked) {
  const MadeTree made;
  WriteDump(made, "20250901120005/0/graph_2/4/0", "Add");
  const auto tree = made.Open("", {.names_graphs = true});
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->graphs(), ElementsAre("graph_2/4"));
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 graph_2/4/Add#0"));
}

TEST(GeTreeTest, DumpsOfSingleOpsHaveNoToken) {
  const MadeTree made;
  WriteDump(made, "20250901120005/0/single/3", "Add");
  WriteDump(made, "20250901120005/1", "Mul");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 Add#0", "0 npu:1 0 Mul#0"));
}

TEST(GeTreeTest, StatisticsAndConvertedDumpsAreEntries) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0/";
  made.Write(token + "Add.Add.1.2.1756699200000001.csv", "Input/Output,Index");
  made.Write(token + "Mul.a.b.1.2.1756699200000002_min_max.npz", "npz");
  made.Write(token + "Sub.Sub.1.2.1756699200000003.output.10.npy");
  made.Write(token + "Sub.Sub.1.2.1756699200000003.output.2.npy");
  made.Write(token + "Sub.Sub.1.2.1756699200000003.input.0.npy");
  made.Write(token + "Sub.Sub.1.2.1756699200000004.input.0.npy");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(
      DescribeAll(*tree),
      ElementsAre("0 npu:0 0 Add#0", "0 npu:0 0 a.b#0",
                  "0 npu:0 0 Sub#0 input:0", "0 npu:0 0 Sub#0 output:2",
                  "0 npu:0 0 Sub#0 output:10", "0 npu:0 0 Sub#1 input:0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(GeTreeTest, WhatWasMadeOfADumpBesideItIsAProblem) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0/";
  WriteDump(made, token, "Add");
  made.Write(token + "T.Add.1.2.1756699200000001_min_max.npz", "npz");
  made.Write(token + "T.Add.1.2.1756699200000001.output.0.npy");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 Add#0"));
  const std::string why = ": the dump that it was made from is next to it";
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(token + "T.Add.1.2.1756699200000001_min_max.npz" + why,
                  token + "T.Add.1.2.1756699200000001.output.0.npy" + why));
}

TEST(GeTreeTest, LongNamesAreInAFileOfTheirOwn) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0/";
  made.Write(token + "123", DumpOf(""));
  made.Write(token + "456.csv", "csv");
  made.Write(token + "789", DumpOf("lost"));
  made.Write(token + "mapping.csv",
             "123,Add.a_long_name.1.2.1756699200000002\n"
             "456,Mul.another.1.2.1756699200000000.csv\nwrong\n");
  WriteDump(made, token, "Add");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 another#0", "0 npu:0 0 Add#0",
                          "0 npu:0 0 a_long_name#0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(token + "mapping.csv: line 3: it is not a number with a name",
                  token + "789: mapping.csv has no name of a dump for it"));
}

TEST(GeTreeTest, UnknownAndDamagedFilesAreProblems) {
  const MadeTree made;
  const std::string token = "20250901120005/0/graph_1/3/0/";
  WriteDump(made, token, "Add", "1756699200000003");
  made.Write(token + "T.Add.1.2.1756699200000002", "");
  made.Write(token + "x_device_0_1.pt", "");
  made.Write("notes.txt", "");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  // The damaged file counts as a call as well.
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 Add#1"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre("notes.txt: its name is not that of a dump",
                  token + "x_device_0_1.pt: its name is not that of a dump",
                  token + "T.Add.1.2.1756699200000002: it is empty"));
}

TEST(GeTreeTest, TwoDumpsInOneFolderAreAProblem) {
  const MadeTree made;
  WriteDump(made, "20250901120005/0/graph_1/3/0", "Add", "1756699200000001");
  WriteDump(made, "20250901120005/0/graph_1/3/1", "Add", "1756699200000001");
  WriteDump(made, "20250901130000/0/graph_1/3/0", "Add", "1756699200000002");
  WriteDump(made, "20250901130000/0/graph_1/3/1", "Add", "1756699200000002");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 Add#0", "0 npu:0 0 Add#1",
                          "0 npu:0 1 Add#0", "0 npu:0 1 Add#1"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(::testing::StartsWith(
          "20250901130000/0/graph_1/3/0: another dump of the same tokens")));
}

TEST(GeTreeTest, JobsOfTwoSizesAreAProblem) {
  const MadeTree made;
  WriteDump(made, "worldsize2_global_rank0/20250901120005/0/g/1/0", "Add");
  WriteDump(made, "worldsize4_global_rank1/20250901120005/0/g/1/0", "Add");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->world_size(), 4);
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre("worldsize4_global_rank1/20250901120005/0/g/1/0: its "
                          "job has 4 ranks, and that of others has 2"));
}

TEST(MindieTreeTest, AnyFolderOfItsLayoutIsATree) {
  const MadeTree made;
  WriteDump(made, "out/20250901120005/0/Graph/1/0", "Add");
  made.Write("out/mindie_rt_op_mapping.json", "[]");
  made.Write("mindie_torch_op_mapping.json", "[]");
  for (const std::string below :
       {"", "/20250901120005/0", "/20250901120005/0/Graph",
        "/20250901120005/0/Graph/1", "/20250901120005/0/Graph/1/0"}) {
    const auto tree = made.Open("out" + below);
    ASSERT_NE(tree, nullptr) << below;
    EXPECT_EQ(tree->kind(), TreeKind::kMindie);
    EXPECT_THAT(Attachments(*tree), ElementsAre("mindie_rt_op_mapping.json"));
    EXPECT_EQ(tree->attachments()[0].media_type, "application/json");
    EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 Add#0")) << below;
    EXPECT_THAT(Problems(*tree, made), IsEmpty()) << below;
  }
}

TEST(MindieTreeTest, MappingsMayLieAboveTheDumps) {
  const MadeTree made;
  WriteDump(made, "out/20250901120005/0/Graph/1/0", "Add");
  made.Write("mindie_rt_op_mapping.json", "[]");
  made.Write("mindie_torch_op_mapping.json", "[]");
  for (const char* below : {"", "out", "out/20250901120005/0/Graph"}) {
    const auto tree = made.Open(below);
    ASSERT_NE(tree, nullptr) << below;
    EXPECT_THAT(Attachments(*tree), ElementsAre("mindie_rt_op_mapping.json",
                                                "mindie_torch_op_mapping.json"))
        << below;
    EXPECT_THAT(Problems(*tree, made), IsEmpty()) << below;
  }
}

TEST(MindieTreeTest, MappingsMayLieWhereTheUserSays) {
  const MadeTree made;
  WriteDump(made, "out/20250901120005/0/Graph/1/0", "Add");
  WriteDump(made, "other/20250901120005/0/g/1/0", "Add");
  made.Write("out/mindie_rt_op_mapping.json", "[]");
  made.Write("elsewhere/mindie_rt_op_mapping.json", "[]");
  TreeOptions options;
  options.mapping_folder = made.path("elsewhere");
  const auto error = [&](const std::string& tree) {
    return std::string(Message(OpenTree(made.path(tree), options).status()));
  };
  EXPECT_THAT(error("out"), HasSubstr("no mindie_torch_op_mapping.json in"));
  made.Write("elsewhere/mindie_torch_op_mapping.json", "[]");
  const auto tree = made.Open("out", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(Attachments(*tree), ElementsAre("mindie_rt_op_mapping.json",
                                              "mindie_torch_op_mapping.json"));
  for (const TreeAttachment& attachment : tree->attachments()) {
    EXPECT_THAT(attachment.file, HasSubstr("elsewhere"));
  }
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 Add#0"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
  EXPECT_THAT(error("other"), HasSubstr("only for mindie"));
  options.mapping_folder = made.path("nowhere");
  EXPECT_THAT(error("out"), HasSubstr("nowhere"));
}

TEST(MindieTreeTest, MappingsThatTheUserNamesMayBeLinks) {
  const MadeTree made;
  WriteDump(made, "out/20250901120005/0/Graph/1/0", "Add");
  made.Write("elsewhere/linked/nothing", "");
  TreeOptions options;
  options.mapping_folder = made.path("elsewhere/linked");
  for (const std::string name :
       {"mindie_rt_op_mapping.json", "mindie_torch_op_mapping.json"}) {
    made.Write("real_" + name, "[]");
    std::filesystem::create_symlink(made.path("real_" + name),
                                    made.path("elsewhere/linked/" + name));
  }
  const auto tree = made.Open("out", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(Attachments(*tree), ElementsAre("mindie_rt_op_mapping.json",
                                              "mindie_torch_op_mapping.json"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
  std::filesystem::remove(made.path("real_mindie_rt_op_mapping.json"));
  EXPECT_THAT(
      std::string(Message(OpenTree(made.path("out"), options).status())),
      HasSubstr("no mindie_rt_op_mapping.json in"));
}

TEST(MindieTreeTest, AGraphBesideOthersIsAmbiguous) {
  const MadeTree made;
  WriteDump(made, "20250901120005/0/Graph/1/0", "Add");
  WriteDump(made, "20250901120005/0/graph_1/2/0", "Add");
  const auto tree = OpenTree(made.path(), {});
  EXPECT_EQ(tree.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(tree.status())),
              ::testing::HasSubstr("a tree of ge or mindie"));
}

}  // namespace
}  // namespace msitd::trees
