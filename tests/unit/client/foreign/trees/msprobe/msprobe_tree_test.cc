// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string TensorLeaf(const std::string& file) {
  return fmt::format(
      R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1],
           "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0,
           "requires_grad": false{}}})",
      file.empty() ? "" : fmt::format(R"(, "data_name": "{}")", file));
}

// Returns a dump with `data`, which includes its braces.
std::string Dump(const std::string& data) {
  return R"({"task": "tensor", "level": "mix", "framework": "pytorch",
             "dump_data_dir": "/gone/dump_tensor_data", "data": )" +
         data + "}";
}

std::string OneRecord(const std::string& file = "") {
  return Dump(R"({"Functional.relu.0.forward": {"input_args": [)" +
              TensorLeaf(file) + R"(], "input_kwargs": {}, "output": []}})");
}

TEST(MsprobeTreeTest, RanksComeBeforeStepsAndStepsInTheirOrder) {
  const MadeTree made;
  for (const char* place : {"step10/rank0", "step2/rank1", "step2/rank0"}) {
    made.Write(std::string(place) + "/dump.json", OneRecord());
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kMsprobe);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(
      DescribeAll(*tree),
      ElementsAre(
          "0 - 2 dump.json#0 state:", "0 - 2 Functional.relu#0 input:0",
          "0 - 10 dump.json#0 state:", "0 - 10 Functional.relu#0 input:0",
          "1 - 2 dump.json#0 state:", "1 - 2 Functional.relu#0 input:0"));
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

TEST(MsprobeTreeTest, EntriesComeInTheOrderOfTheirRecords) {
  const MadeTree made;
  made.Write("rank/dump.json",
             Dump(R"({"Module.fc.Linear.forward.1": {"input_args": [)" +
                  TensorLeaf("a.pt") + R"(], "input_kwargs": {"mask": )" +
                  TensorLeaf("") + R"(}, "output": [null], "parameters": {}},
                  "Functional.relu.0.backward": {"input": [)" +
                  TensorLeaf("") + R"(], "output": [)" + TensorLeaf("") + R"(]},
                  "Module.fc.Linear.parameters_grad": {"weight": [)" +
                  TensorLeaf("") + R"(]}})"));
  made.Write("rank/dump_tensor_data/a.pt", "bytes");
  made.Write("rank/stack.json",
             R"({"Module.fc.Linear.forward.1": ["File f, line 1, in g, \n x"],
                 "no record": ["x"]})");
  made.Write("rank/construct.json", R"({"no record": null})");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  std::vector<TreeEntry> entries;
  while (const TreeEntry* entry = tree->Next()) entries.push_back(*entry);
  std::vector<std::string> names;
  for (const TreeEntry& entry : entries) names.push_back(Describe(entry));
  EXPECT_THAT(
      names,
      ElementsAre(
          "0 - 0 construct.json#0 state:", "0 - 0 dump.json#0 state:",
          "0 - 0 stack.json#0 state:", "0 - 0 Module.fc.Linear#1 input:0",
          "0 - 0 Module.fc.Linear#1 input:mask",
          "0 - 0 Module.fc.Linear#1 output:0",
          "0 - 0 Functional.relu#0 grad_output:0",
          "0 - 0 Functional.relu#0 grad_input:0",
          "0 - 0 Module.fc.Linear#0 grad_weight:weight"));
  EXPECT_EQ(entries[0].kind, RecordKind::kDocument);
  EXPECT_EQ(entries[0].text, R"({"no record": null})");
  EXPECT_EQ(entries[3].kind, RecordKind::kTensor);
  EXPECT_EQ(entries[3].file, made.path("rank/dump_tensor_data/a.pt"));
  EXPECT_EQ(entries[3].stack, "f:1 g");
  EXPECT_EQ(entries[3].requires_grad, false);
  EXPECT_EQ(entries[4].kind, RecordKind::kStatistics);
  EXPECT_EQ(entries[4].text,
            R"({"max": 1.0, "min": 1.0, "mean": 1.0, "l2_norm": 1.0})");
  EXPECT_EQ(entries[4].file, "");
  EXPECT_EQ(entries[5].kind, RecordKind::kNone);
  EXPECT_EQ(entries[6].stack, "");
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

TEST(MsprobeTreeTest, OneProcessIsRankZero) {
  const MadeTree made;
  made.Write("step0/proc77/dump.json", OneRecord());
  made.Write("step1/proc77/dump.json", OneRecord());
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0));
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

TEST(MsprobeTreeTest, ProcessesComeBehindKnownRanks) {
  const MadeTree made;
  for (const char* place :
       {"step0/rank1", "step0/proc100", "step0/proc20", "step1/proc100"}) {
    made.Write(std::string(place) + "/dump.json", OneRecord());
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(1, 2, 3));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(
          HasSubstr("proc20 does not specify its rank, so rank 2 is used"),
          HasSubstr("proc100 does not specify its rank, so rank 3 is used")));
}

TEST(MsprobeTreeTest, AStepARankAndAFileStandForThemselves) {
  const MadeTree made;
  made.Write("step3/rank2/dump.json", OneRecord("a.pt"));
  made.Write("step3/rank2/dump_tensor_data/a.pt", "x");
  for (const char* part : {"step3", "step3/rank2", "step3/rank2/dump.json"}) {
    const auto tree = made.Open(part);
    ASSERT_NE(tree, nullptr) << part;
    EXPECT_THAT(tree->ranks(), ElementsAre(2));
    EXPECT_THAT(DescribeAll(*tree),
                ElementsAre("2 - 3 dump.json#0 state:",
                            "2 - 3 Functional.relu#0 input:0"));
    EXPECT_THAT(tree->TakeProblems(), IsEmpty());
  }
}

TEST(MsprobeTreeTest, SavedValuesAreStates) {
  const MadeTree made;
  made.Write("step0/rank0/debug.json",
             R"({"task": "statistics", "dump_data_dir": null, "data": {
                   "y.0.debug": {"a": [{"type": "int", "value": 3}]},
                   "y_grad.0.debug": )" +
                 TensorLeaf("") + "}}");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 debug.json#0 state:", "0 - 0 y#0 state:a.0",
                          "0 - 0 y_grad#0 state:"));
}

TEST(MsprobeTreeTest, FilesAndEntriesThatMissEachOtherAreProblems) {
  const MadeTree made;
  made.Write("step0/rank0/dump.json", OneRecord("gone.pt"));
  made.Write("step0/rank0/dump_tensor_data/stray.pt", "x");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  while (const TreeEntry* entry = tree->Next()) {
    if (entry->kind == RecordKind::kDocument) continue;
    EXPECT_EQ(entry->kind, RecordKind::kStatistics);
  }
  EXPECT_THAT(Problems(*tree, made),
              UnorderedElementsAre(
                  "step0/rank0/dump_tensor_data/gone.pt: an entry names it, "
                  "but it does not exist",
                  "step0/rank0/dump_tensor_data/stray.pt: no entry names it"));
}

TEST(MsprobeTreeTest, OneFileOfRecordsCanBeSelected) {
  const MadeTree made;
  made.Write("rank0/dump.json", OneRecord());
  made.Write("rank0/debug.json",
             Dump(R"({"loss.0.debug": )" + TensorLeaf("loss.pt") + "}"));
  made.Write("rank0/dump_tensor_data/loss.pt", "x");
  const auto dump = made.Open(
      "rank0", {.kind = TreeKind::kMsprobe, .record_file = "dump.json"});
  ASSERT_NE(dump, nullptr);
  EXPECT_THAT(DescribeAll(*dump),
              ElementsAre("0 - 0 dump.json#0 state:",
                          "0 - 0 Functional.relu#0 input:0"));
  // The file belongs to the other records.
  EXPECT_THAT(dump->TakeProblems(), IsEmpty());
  const auto debug = made.Open(
      "rank0", {.kind = TreeKind::kMsprobe, .record_file = "debug.json"});
  ASSERT_NE(debug, nullptr);
  EXPECT_THAT(DescribeAll(*debug),
              ElementsAre("0 - 0 debug.json#0 state:", "0 - 0 loss#0 state:"));
}

TEST(MsprobeTreeTest, NoEntryNamesAFileElsewhere) {
  const MadeTree made;
  made.Write("step0/rank0/secret.pt", "x");
  made.Write("step0/rank0/dump.json", OneRecord("../secret.pt"));
  made.Write("step0/rank0/dump_tensor_data/a.pt", "x");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  while (const TreeEntry* entry = tree->Next()) EXPECT_EQ(entry->file, "");
  EXPECT_EQ(tree->TakeProblems().size(), 3);
}

TEST(MsprobeTreeTest, WhatComesBeforeAnErrorIsTaken) {
  const MadeTree made;
  const std::string whole = OneRecord();
  made.Write("step0/rank0/dump.json",
             whole.substr(0, whole.size() - 2) + R"(, "Torch.a.0.for)");
  made.Write("step0/rank1/dump.json", "[]");
  made.Write("step0/rank2/dump.json", R"({"task": "x"})");
  made.Write("step0/rank3/dump.json", whole + "x");
  made.Write("step0/rank4/dump.json", Dump("[]"));
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  int count = 0;
  while (const TreeEntry* entry = tree->Next()) {
    count += entry->kind == RecordKind::kDocument ? 0 : 1;
  }
  EXPECT_EQ(count, 2);
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(HasSubstr("rank0/dump.json: invalid JSON at byte"),
                          "step0/rank1/dump.json: it is not an object",
                          "step0/rank2/dump.json: it has no data",
                          HasSubstr("rank3/dump.json: invalid JSON at byte"),
                          "step0/rank4/dump.json: its data is not an object"));
}

TEST(MsprobeTreeTest, ARecordThatComesTwiceIsTakenOnce) {
  const MadeTree made;
  made.Write("step0/rank0/dump.json",
             Dump(R"({"Tensor.a.0.forward": {"output": [null]},
                      "Tensor.a.0.forward": {"output": [null]},
                      "Tensor.b.0.forward": {"input_args": [null],
                                             "input": [null]}})"));
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 dump.json#0 state:",
                                              "0 - 0 Tensor.a#0 output:0",
                                              "0 - 0 Tensor.b#0 input:0"));
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(HasSubstr("Tensor.a.0.forward: there is another"),
                          HasSubstr("Tensor.b.0.forward.input.0: its name is "
                                    "invalid or not unique")));
}

TEST(MsprobeTreeTest, WhatIsNoDumpIsSaid) {
  const MadeTree made;
  made.Write("step0/rank0/dump.json", OneRecord());
  made.Write("step0/rank0/notes.txt", "x");
  made.Write("step0/rank0/other/x", "x");
  made.Write("step0/rank00/dump.json", OneRecord());
  made.Write("step0/kernel_config_12.json", "{}");
  made.Write("step0/x/y", "x");
  made.Write("notes.txt", "x");
  made.Write("free_benchmark.csv", "x");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  ASSERT_EQ(tree->attachments().size(), 2);
  EXPECT_EQ(tree->attachments()[0].name, "free_benchmark.csv");
  EXPECT_EQ(tree->attachments()[1].name, "step0/kernel_config_12.json");
  while (tree->Next() != nullptr) {
  }
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(HasSubstr("notes.txt: not a dump"),
                          HasSubstr("step0/x: not a dump"),
                          HasSubstr("step0/rank00: not a dump"),
                          HasSubstr("step0/rank0/notes.txt: not a dump"),
                          HasSubstr("step0/rank0/other: not a dump")));
}

TEST(MsprobeTreeTest, OtherFoldersAreNotTaken) {
  const MadeTree made;
  made.Write("layer/dump.json", OneRecord());
  made.Write("a.npy");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kFiles);
  EXPECT_FALSE(OpenTree(made.path(), {.kind = TreeKind::kMsprobe}).ok());
}

}  // namespace
}  // namespace msitd::trees
