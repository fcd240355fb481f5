// SPDX-License-Identifier: Apache-2.0
#include "client/import/trees/atb_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/import/trees/made_tree.h"

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

TEST(AtbTreeTest, TwoGraphsBeginWithAWarmUpAndShareAFolder) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Prefill.json", "{}");
  made.Write("msit_dump_1/model/42/Decoder.json", "{}");
  const std::string process = "msit_dump_1/tensors/0_42/";
  for (const char* file : {"0/0_Prefill_layer", "1/0_Prefill_layer",
                           "1/0_Decoder_layer", "2/0_Decoder_layer"}) {
    made.Write(process + file + "/after/outtensor0.bin", kBin);
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 npu:0 0 warmup/0_Prefill_layer#0 output:0",
                          "0 npu:0 0 0_Prefill_layer#0 output:0",
                          "0 npu:0 1 0_Decoder_layer#0 output:0",
                          "0 npu:0 2 0_Decoder_layer#0 output:0"));
}

TEST(AtbTreeTest, OneGraphHasTheNumbersOfItsFolders) {
  const MadeTree made;
  made.Write("msit_dump_1/model/42/Model.json", "{}");
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
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(HasSubstr("intensor1.bin: a link that leads out")));
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
