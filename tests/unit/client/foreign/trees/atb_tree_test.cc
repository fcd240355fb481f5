// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/atb_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBin[] = "dtype=0\ndims=1\n$End=1\nabcd";

TEST(AtbTreeTest, OpsComeInTheirOrderAndTheirResultsBehindThem) {
  const MadeTree made;
  const std::string token = "msit_dump_1/tensors/3_42/5";
  for (const char* file :
       {"10_Mlp/after/outtensor0.bin", "2_Layer/before/intensor0.bin",
        "2_Layer/before/intensor10.bin", "2_Layer/after/intensor0.bin",
        "2_Layer/after/outtensor0.bin", "2_Layer/0_Linear/before/intensor2.bin",
        "2_Layer/0_Linear/after/outtensor0.bin",
        "2_Layer/1_Add/outtensor0.bin"}) {
    made.Write(token + "/" + file, kBin);
  }
  for (const char* part :
       {"", "msit_dump_1", "msit_dump_1/tensors", "msit_dump_1/tensors/3_42",
        "msit_dump_1/tensors/3_42/5"}) {
    const auto tree = made.Open(part);
    ASSERT_NE(tree, nullptr) << part;
    EXPECT_EQ(tree->kind(), TreeKind::kAtb);
    EXPECT_THAT(DescribeAll(*tree),
                ElementsAre("0 npu:3 5 2_Layer#0 input:0.before",
                            "0 npu:3 5 2_Layer#0 input:10",
                            "0 npu:3 5 2_Layer/0_Linear#0 input:2",
                            "0 npu:3 5 2_Layer/0_Linear#0 output:0",
                            "0 npu:3 5 2_Layer/1_Add#0 output:0",
                            "0 npu:3 5 2_Layer#0 input:0",
                            "0 npu:3 5 2_Layer#0 output:0",
                            "0 npu:3 5 10_Mlp#0 output:0"))
        << part;
    EXPECT_THAT(Problems(*tree, made), IsEmpty());
  }
}

TEST(AtbTreeTest, TopologiesAreAttachedOnce) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Llama.json", "{}");
  made.Write("msit_dump_1/model/43/Llama.json", "{}");
  made.Write("msit_dump_1/model/44/Llama.json", "{\"modelName\": 1}");
  made.Write("msit_dump_1/layer/42/Layer.json", "{}");
  made.Write("msit_dump_1/operation_io_tensors/42/operation_tensors_0.csv");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kAtb);
  std::vector<std::string> names;
  for (const TreeAttachment& one : tree->attachments()) {
    names.push_back(one.name + " " + one.media_type);
  }
  EXPECT_THAT(names, ElementsAre("layer/Layer.json application/json",
                                 "model/Llama.json application/json",
                                 "model/44/Llama.json application/json",
                                 "operation_io_tensors/operation_tensors_0.csv "
                                 "text/csv"));
  EXPECT_EQ(tree->Next(), nullptr);
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

// Returns a topology whose ops have these types, numbered from `first`.
std::string Topology(int first, const std::vector<std::string>& types) {
  std::string nodes;
  for (size_t i = 0; i < types.size(); ++i) {
    nodes += fmt::format(
        R"({}{{"opName": "{}_{}", "opType": "{}", "inTensors": ["x"],)"
        R"( "param": {{"opType": "no"}}, "nodes": [{{"opType": "Inner"}}]}})",
        i > 0 ? "," : "", types[i], first + static_cast<int>(i), types[i]);
  }
  return R"({"modelName": "opType", "inTensors": ["nodes"], "nodes": [)" +
         nodes + R"(], "outTensors": []})";
}

const std::vector<std::string>& Model() {
  static const auto* const types =
      new std::vector<std::string>{"WordEmbedding", "Layer", "RmsNorm"};
  return *types;
}

void WriteOps(const MadeTree& made, const std::string& process,
              const std::vector<std::string>& ops) {
  for (const std::string& op : ops) {
    made.Write(
        "msit_dump_1/tensors/" + process + "/" + op + "/after/outtensor0.bin",
        kBin);
  }
}

// Returns the ops of each token as `token op`.
std::vector<std::string> OpsOf(Tree& tree) {
  std::vector<std::string> out;
  while (const TreeEntry* entry = tree.Next()) {
    out.push_back(fmt::format("{} {}", entry->key.token, entry->key.op));
  }
  return out;
}

TEST(AtbTreeTest, TwoGraphsBeginWithAWarmUpAndShareAFolder) {
  const MadeTree made;
  // File names do not distinguish the graphs. The decode graph sorts first.
  made.Write("msit_dump_1/model/42/A.json", Topology(3, Model()));
  made.Write("msit_dump_1/model/42/B.json", Topology(0, Model()));
  WriteOps(made, "0_42",
           {"0/0_WordEmbedding", "0/3_WordEmbedding", "1/0_WordEmbedding",
            "1/1_Layer", "1/2_RmsNorm", "1/3_WordEmbedding", "1/4_Layer",
            "1/5_RmsNorm", "1/6_LmHead", "2/3_WordEmbedding", "2/5_RmsNorm"});
  const std::vector<std::string> shared = {
      "0 0_WordEmbedding", "0 1_Layer",   "0 2_RmsNorm", "1 3_WordEmbedding",
      "1 4_Layer",         "1 5_RmsNorm", "1 6_LmHead"};
  std::vector<std::string> all = {"0 warmup/0_WordEmbedding",
                                  "0 warmup/3_WordEmbedding"};
  all.insert(all.end(), shared.begin(), shared.end());
  all.insert(all.end(), {"2 3_WordEmbedding", "2 5_RmsNorm"});
  for (const char* part : {"", "msit_dump_1", "msit_dump_1/tensors/0_42"}) {
    const auto tree = made.Open(part);
    ASSERT_NE(tree, nullptr);
    EXPECT_EQ(OpsOf(*tree), all) << part;
    EXPECT_EQ(tree->attachments().size(), 2) << part;
    EXPECT_THAT(Problems(*tree, made), IsEmpty());
  }
  const auto execution = made.Open("msit_dump_1/tensors/0_42/1");
  ASSERT_NE(execution, nullptr);
  EXPECT_EQ(OpsOf(*execution), shared);
}

TEST(AtbTreeTest, AConversionBeforeTheFirstOpShiftsTheNumbers) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/A.json", Topology(0, Model()));
  made.Write("msit_dump_1/model/42/B.json", Topology(3, Model()));
  made.Write("msit_dump_1/layer/42/TransdataOperation_0.json", "{}");
  WriteOps(made, "0_42",
           {"1/0_TransdataOperation", "1/3_RmsNorm", "1/4_WordEmbedding"});
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(OpsOf(*tree), ElementsAre("0 0_TransdataOperation", "0 3_RmsNorm",
                                        "1 4_WordEmbedding"));
}

TEST(AtbTreeTest, GraphsOfTheSameNumbersAreToldApartByTypes) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Decode.json",
             Topology(0, {"WordEmbedding", "Decoder_layer"}));
  made.Write("msit_dump_1/model/42/Encode.json",
             Topology(0, {"WordEmbedding", "Prefill_layer"}));
  // Ops that were written once are in both graphs. The last two are in no
  // topology.
  WriteOps(made, "0_42",
           {"1/0_WordEmbedding", "1/1_Decoder_layer", "1/1_Prefill_layer",
            "1/1_Other", "1/2_Other"});
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(
      OpsOf(*tree),
      ElementsAre("0 0_WordEmbedding", "0 1_Other", "0 1_Prefill_layer",
                  "1 0_WordEmbedding", "1 1_Decoder_layer", "1 2_Other"));
}

TEST(AtbTreeTest, OpsOfNoTopologyAreToldApartByName) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/A.json", Topology(0, {"Other"}));
  // A file that is cut off counts as far as it can be read.
  made.Write("msit_dump_1/model/42/B.json",
             R"({"nodes": [{"opName": "Other_0", "opType": "Other")");
  WriteOps(made, "0_42", {"1/0_Prefill_layer", "1/1_DECODER_layer"});
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(OpsOf(*tree),
              ElementsAre("0 0_Prefill_layer", "1 1_DECODER_layer"));
  EXPECT_THAT(Problems(*tree, made), ElementsAre(HasSubstr("B.json: ")));
}

TEST(AtbTreeTest, FilesWithoutNodesAreNoGraphs) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Model.json", Topology(0, Model()));
  made.Write("msit_dump_1/model/42/a_config.json", R"({"hidden_size": 8})");
  made.Write("msit_dump_1/model/42/b.json", R"({"nodes": []})");
  made.Write("msit_dump_1/model/42/c.json", "[1]");
  made.Write("msit_dump_1/model/42/d.json", R"({"nodes": {"a": {}}})");
  WriteOps(made, "0_42", {"0/0_WordEmbedding", "1/0_WordEmbedding"});
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(OpsOf(*tree),
              ElementsAre("0 0_WordEmbedding", "1 0_WordEmbedding"));
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(HasSubstr("c.json: it is not a topology")));
}

TEST(AtbTreeTest, ProcessesHaveGraphsOfTheirOwn) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/A.json", Topology(0, Model()));
  made.Write("msit_dump_1/model/42/B.json", Topology(3, Model()));
  made.Write("msit_dump_1/model/43/A.json", Topology(0, Model()));
  WriteOps(made, "0_42", {"1/0_WordEmbedding", "1/3_WordEmbedding"});
  WriteOps(made, "1_43", {"0/0_WordEmbedding", "1/0_WordEmbedding"});
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 0_WordEmbedding#0 output:0",
                          "0 npu:0 1 3_WordEmbedding#0 output:0",
                          "1 npu:1 0 0_WordEmbedding#0 output:0",
                          "1 npu:1 1 0_WordEmbedding#0 output:0"));
}

TEST(AtbTreeTest, OneGraphHasTheNumbersOfItsFolders) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Model.json", Topology(0, Model()));
  for (const char* file : {"0/0_Decoder_layer", "1/0_Prefill_layer"}) {
    made.Write(std::string("msit_dump_1/tensors/0_42/") + file +
                   "/after/outtensor0.bin",
               kBin);
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 0_Decoder_layer#0 output:0",
                          "0 npu:0 1 0_Prefill_layer#0 output:0"));
}

TEST(AtbTreeTest, LinksInsideAreFilesAndOthersAreProblems) {
  const MadeTree other;
  other.Write("secret.bin", kBin);
  const MadeTree made;
  const std::string op = "msit_dump_1/tensors/0_42/0/0_Add/";
  made.Write(op + "after/outtensor0.bin", kBin);
  made.Link(op + "before/intensor0.bin", "../after/outtensor0.bin");
  made.Link(op + "before/intensor1.bin", other.path("secret.bin"));
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 npu:0 0 0_Add#0 input:0",
                                              "0 npu:0 0 0_Add#0 output:0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(HasSubstr("intensor1.bin: a link to a file outside")));
}

TEST(AtbTreeTest, WhatIsNoDumpIsSaid) {
  const MadeTree made;
  const std::string process = "msit_dump_1/tensors/0_42/";
  made.Write(process + "0/0_Add/after/outtensor0.bin", kBin);
  made.Write(process + "0/0_Add/after/tiling.bin", kBin);
  made.Write(process + "0/0_Add/after/deeper/x", kBin);
  made.Write(process + "0/stray.bin", kBin);
  made.Write(process + "none/x", kBin);
  made.Write("msit_dump_1/notes.txt");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(DescribeAll(*tree).size(), 1);
  std::vector<std::string> problems = Problems(*tree, made);
  std::sort(problems.begin(), problems.end());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("notes.txt: not a dump"),
                                    HasSubstr("after/deeper: not a dump"),
                                    HasSubstr("after/tiling.bin: not a dump"),
                                    HasSubstr("0/stray.bin: not a dump"),
                                    HasSubstr("none: not a dump")));
}

}  // namespace
}  // namespace msitd::trees
