// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msit_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "client/foreign/trees/dump_processes.h"
#include "client/foreign/trees/msit_statistics.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTitleLine[] =
    "NodeName,NodeType,InputOutput,Index,DataType,Shape,Max,Min,Mean,L2Norm"
    "\r\n";

std::string RowLine(const std::string& io, int index, const std::string& max) {
  return fmt::format(
      "root.fc,Linear,{},{},torch.float16,\"(2, 3)\",{},-1.0,nan,2.5\r\n", io,
      index, max);
}

// Sets the modification time of a file, in seconds.
void SetTime(const std::string& path, int64_t seconds) {
  const timespec times[] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(MsitTreeTest, TokensHaveModulesInTheOrderInWhichTheyWereDone) {
  const MadeTree made;
  const std::string process = "msit_dump_20250101_000000/torch_tensors/cpu_99";
  int64_t time = 1000;
  for (const char* file :
       {"0/root.fc2/input_0.pth", "0/root.fc2/output.pth",
        "0/root.fc10/output_1_0.pth", "0/root.fc10/output_0.pth",
        "0/root/output.pth", "2/root/output.pth"}) {
    made.Write(process + "/" + file);
    SetTime(made.path(process + "/" + file), time++);
  }
  made.Write(process + "/model_tree.json", R"({"name": "root"})");
  made.Write(process + "/weights/root.fc2.weight.pth");
  for (const std::string& part :
       {std::string(), std::string("msit_dump_20250101_000000"),
        std::string("msit_dump_20250101_000000/torch_tensors"), process}) {
    const auto tree = made.Open(part);
    ASSERT_NE(tree, nullptr) << part;
    EXPECT_EQ(tree->kind(), TreeKind::kMsit);
    EXPECT_THAT(
        DescribeAll(*tree),
        ElementsAre("0 cpu:0 0 model_tree.json#0 state:",
                    "0 cpu:0 0 root.fc2#0 weight:weight",
                    "0 cpu:0 0 root.fc2#0 input:0",
                    "0 cpu:0 0 root.fc2#0 output:0",
                    "0 cpu:0 0 root.fc10#0 output:0",
                    "0 cpu:0 0 root.fc10#0 output:1.0",
                    "0 cpu:0 0 root#0 output:0", "0 cpu:0 2 root#0 output:0"))
        << part;
    EXPECT_THAT(Problems(*tree, made), IsEmpty());
  }
  const auto token = made.Open(process + "/2");
  ASSERT_NE(token, nullptr);
  EXPECT_THAT(DescribeAll(*token), ElementsAre("0 cpu:0 2 root#0 output:0"));
}

TEST(MsitTreeTest, ModulesOfOneTimeComeByTheirNames) {
  const MadeTree made;
  for (const char* module : {"root.h.10", "root.h.2", "root.fc"}) {
    const std::string file = fmt::format("cpu_1/0/{}/output.pth", module);
    made.Write(file);
    SetTime(made.path(file), 1000);
  }
  const auto tree = made.Open("cpu_1");
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 cpu:0 0 root.fc#0 output:0",
                          "0 cpu:0 0 root.h.2#0 output:0",
                          "0 cpu:0 0 root.h.10#0 output:0"));
}

TEST(MsitTreeTest, RanksAreDevicesInAscendingOrder) {
  const MadeTree made;
  for (const char* process : {"npu10_7", "npu2_8", "77_npu3"}) {
    made.Write(
        fmt::format("ait_dump/torch_tensors/{}/0/root/output.pth", process));
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1, 2));
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:2 0 root#0 output:0",
                                              "1 npu:3 0 root#0 output:0",
                                              "2 npu:10 0 root#0 output:0"));
}

TEST(MsitTreeTest, StatisticsComeWhereThereIsNoTensor) {
  const MadeTree made;
  const std::string module = "cpu_1/0/root.fc";
  made.Write(module + "/statistics.csv",
             kTitleLine + RowLine("Input", 0, "1.5") +
                 RowLine("Output", 0, "inf") + RowLine("Output", 0, "2"));
  made.Write("cpu_1/model_tree.json", "{}");
  const auto tree = made.Open("cpu_1");
  ASSERT_NE(tree, nullptr);
  std::vector<TreeEntry> entries;
  while (const TreeEntry* entry = tree->Next()) entries.push_back(*entry);
  ASSERT_EQ(entries.size(), 4);
  EXPECT_EQ(Describe(entries[1]), "0 cpu:0 0 root.fc#0 input:0");
  EXPECT_EQ(Describe(entries[2]), "0 cpu:0 0 root.fc#0 output:0");
  EXPECT_EQ(Describe(entries[3]), "0 cpu:0 0 root.fc#1 output:0");
  EXPECT_EQ(entries[2].kind, RecordKind::kStatistics);
  EXPECT_EQ(entries[2].text,
            R"({"max": "inf", "min": -1.0, "mean": "nan", "l2_norm": 2.5})");
  EXPECT_EQ(entries[2].dtype, DType::kFloat16);
  EXPECT_THAT(entries[2].shape, ElementsAre(2, 3));
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

// If a module ran twice, the files are those of the second call.
TEST(MsitTreeTest, RowsOfCallsThatWereOverwrittenStay) {
  const MadeTree made;
  const std::string module = "cpu_1/0/root.fc";
  made.Write(module + "/statistics.csv",
             kTitleLine + RowLine("Input", 0, "1") + RowLine("Output", 0, "1") +
                 RowLine("Input", 0, "2") + RowLine("Output", 0, "2"));
  made.Write(module + "/input_0.pth");
  made.Write(module + "/output.pth");
  const auto tree = made.Open("cpu_1");
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 cpu:0 0 root.fc#0 input:0",
                                              "0 cpu:0 0 root.fc#0 output:0",
                                              "0 cpu:0 0 root.fc#1 input:0",
                                              "0 cpu:0 0 root.fc#1 output:0"));
}

TEST(MsitTreeTest, WhatIsNoDumpIsSaid) {
  const MadeTree made;
  const std::string process = "msit_dump_1/torch_tensors/cpu_1";
  made.Write(process + "/0/root/output.pth");
  made.Write(process + "/0/root/output_-x.pth");
  made.Write(process + "/0/root/inner/output.pth");
  made.Write(process + "/0/stray.pth");
  made.Write(process + "/other/x");
  made.Write(process + "/weights/nodot.pth");
  made.Write(process + "/notes.txt");
  made.Write("msit_dump_1/torch_tensors/strange/x");
  made.Write("msit_dump_1/tensor_analyze.csv");
  made.Write("msit_dump_1/tensors/x");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 cpu:0 0 root#0 output:0"));
  ASSERT_EQ(tree->attachments().size(), 1);
  EXPECT_EQ(tree->attachments()[0].name, "tensor_analyze.csv");
  std::vector<std::string> problems = Problems(*tree, made);
  std::sort(problems.begin(), problems.end());
  const std::string inside = process + "/";
  EXPECT_THAT(
      problems,
      ElementsAre(HasSubstr("msit_dump_1/tensors: not a dump"),
                  HasSubstr(inside + "0/root/inner: not a dump"),
                  HasSubstr(inside + "0/root/output_-x.pth: not a dump"),
                  HasSubstr(inside + "0/stray.pth: not a dump"),
                  HasSubstr(inside + "notes.txt: not a dump"),
                  HasSubstr(inside + "other: not a dump"),
                  HasSubstr(inside + "weights/nodot.pth: not a dump"),
                  HasSubstr("torch_tensors/strange: not a dump")));
}

TEST(MsitTreeTest, NoTwoEntriesHaveOneKey) {
  const MadeTree made;
  for (const char* file :
       {"0/root/output.pth", "0/root/output_0.pth", "00/root/output.pth"}) {
    made.Write(std::string("cpu_1/") + file);
  }
  const auto tree = made.Open("cpu_1");
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 cpu:0 0 root#0 output:0"));
  EXPECT_EQ(tree->TakeProblems().size(), 2);
}

TEST(MsitTreeTest, TwoDumpsAreNotMixed) {
  const MadeTree made;
  made.Write("msit_dump_1/torch_tensors/cpu_1/0/root/output.pth");
  made.Write("msit_dump_2/torch_tensors/cpu_1/0/root/output.pth");
  const auto tree = OpenTree(made.path(), {});
  EXPECT_THAT(std::string(Message(tree.status())),
              HasSubstr("there are 2 dumps"));
}

TEST(DumpProcessesTest, NamesSayTheDevice) {
  EXPECT_EQ(ParseProcessName("npu5_7624")->device, "npu:5");
  EXPECT_EQ(ParseProcessName("7624_npu5")->device, "npu:5");
  EXPECT_EQ(ParseProcessName("7624_npu5")->process, 7624);
  EXPECT_EQ(ParseProcessName("0_4242")->device, "npu:0");
  EXPECT_EQ(ParseProcessName("cpu_99")->device, "cpu:0");
  for (const char* name : {"", "cpu", "cpu_", "_9", "cpu_x", "a_b_1", "CPU_1",
                           "npu5x_1", "1_2_3"}) {
    EXPECT_EQ(ParseProcessName(name), std::nullopt) << name;
  }
}

TEST(MsitStatisticsTest, RowsThatAreWrongAreLeftOut) {
  const auto table = ParseMsitStatistics(
      kTitleLine + RowLine("Input", 0, "x") + RowLine("Sideways", 0, "1") +
      "root,Linear,Output,0,torch.qint8,\"(1,)\",1,1,1,1\n" +
      "root,Linear,Output,0,torch.int8,(-1),1,1,1,1\n" +
      "root,Linear,Output,0,torch.int8,(),1,1,,1\n" + "short");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->rows.size(), 1);
  EXPECT_EQ(table->rows[0].text, R"({"max": 1, "min": 1, "l2_norm": 1})");
  EXPECT_THAT(table->rows[0].shape, IsEmpty());
  std::vector<std::string> reasons;
  for (const absl::Status& problem : table->problems) {
    reasons.emplace_back(Message(problem));
  }
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("Max is 'x'"),
                                   HasSubstr("InputOutput is 'Sideways'"),
                                   HasSubstr("DataType is 'torch.qint8'"),
                                   HasSubstr("Shape is '(-1)'"),
                                   HasSubstr("InputOutput is ''")));
  EXPECT_FALSE(ParseMsitStatistics("a,b\r\n").ok());
}

}  // namespace
}  // namespace msitd::trees
