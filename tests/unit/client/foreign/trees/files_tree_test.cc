// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/files_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FilesTreeTest, TheOpIsThePathWithoutItsSuffix) {
  const MadeTree made;
  made.Write("b/0.weight.npy");
  made.Write("b/a-b.npy");
  made.Write("a");
  made.Write("MatMul.mm.1.2.3");
  made.Write(".hidden.npy");
  made.Write("x.npy.swp");
  made.Write("import-ledger.jsonl");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kFiles);
  EXPECT_THAT(tree->ranks(), ElementsAre(0));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 MatMul.mm.1.2.3#0", "0 - 0 a#0",
                          "0 - 0 b/0.weight#0", "0 - 0 b/a-b#0"));
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
  // Each file is counted once, however often its folder is listed.
  const LeftOutFiles left_out = tree->left_out();
  EXPECT_EQ(left_out.count, 2);
  EXPECT_THAT(left_out.first,
              ElementsAre(made.path(".hidden.npy"), made.path("x.npy.swp")));
}

TEST(FilesTreeTest, NamesGiveAnOrderForPeopleOnly) {
  const MadeTree made;
  for (const char* file :
       {"layers.10.npy", "layers.2.npy", "layers.2.fc.npy", "layers.npy"}) {
    made.Write(file);
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_FALSE(tree->has_known_order());
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 layers.2.fc#0", "0 - 0 layers.2#0",
                          "0 - 0 layers.10#0", "0 - 0 layers#0"));
  const auto ordered = made.Open("", {.is_in_order = true});
  ASSERT_NE(ordered, nullptr);
  EXPECT_TRUE(ordered->has_known_order());
}

TEST(FilesTreeTest, NamesSayRankAndStep) {
  const MadeTree made;
  for (const char* file :
       {"rank0_step3_layers.10.npy", "rank0_step3_layers.2.npy",
        "rank1_step3_layers.2.npy", "rank1/step12/layers.2.npy",
        "rank1-step3-layers.2.npy", "rank7.npy"}) {
    made.Write(file);
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1, 7));
  EXPECT_THAT(
      DescribeAll(*tree),
      ElementsAre("0 - 3 layers.2#0", "0 - 3 layers.10#0", "1 - 3 layers.2#0",
                  "1 - 3 layers.2#1", "1 - 12 layers.2#0", "7 - 0 tensor#0"));
}

TEST(FilesTreeTest, AWordInTheMiddleOfNamesIsTheirRankIfNoneIsMissing) {
  const MadeTree made;
  for (const char* file : {"a_rank1.npy", "a_rank0.npy", "b.rank1.npy"}) {
    made.Write(file);
  }
  const auto ranks = made.Open();
  ASSERT_NE(ranks, nullptr);
  EXPECT_THAT(ranks->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(DescribeAll(*ranks),
              ElementsAre("0 - 0 a#0", "1 - 0 a#0", "1 - 0 b#0"));
  // The names of other files are unknown if a single file is opened.
  const auto single = made.Open("a_rank0.npy");
  ASSERT_NE(single, nullptr);
  EXPECT_THAT(DescribeAll(*single), ElementsAre("0 - 0 a_rank0#0"));
}

TEST(FilesTreeTest, RanksOfMatricesAreNoRanks) {
  const MadeTree made;
  for (const char* file :
       {"base.npy", "lora_rank_8.A.npy", "lora_rank_16.A.npy"}) {
    made.Write(file);
  }
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 base#0", "0 - 0 lora_rank_8.A#0",
                          "0 - 0 lora_rank_16.A#0"));
}

TEST(FilesTreeTest, ARankThatTheUserSaysIsThatOfAllFiles) {
  const MadeTree made;
  made.Write("rank_8/a.npy");
  made.Write("rank_16/a.npy");
  EXPECT_THAT(made.Open()->ranks(), ElementsAre(8, 16));
  const auto tree = made.Open("", {.is_rank_said = true});
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0));
  EXPECT_THAT(DescribeAll(*tree),
              ElementsAre("0 - 0 rank_8/a#0", "0 - 0 rank_16/a#0"));
}

TEST(FilesTreeTest, FilesThatDifferInTheirSuffixAreCalls) {
  const MadeTree made;
  made.Write("a.npy");
  made.Write("a.NPY");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 a#0", "0 - 0 a#1"));
}

TEST(FilesTreeTest, AFileWithoutTensorsIsAProblem) {
  const MadeTree made;
  made.Write("a.npy");
  made.Write("notes.txt", "no tensors in it");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 a#0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre("notes.txt: it is not a kind of file that msitd can read"));
  EXPECT_THAT(tree->TakeProblems(), IsEmpty());
}

TEST(FilesTreeTest, ANameThatNoRunCanHaveIsAProblem) {
  const MadeTree made;
  made.Write("a.npy");
  const std::string deep(200, 'd');
  const std::string path =
      deep + "/" + deep + "/" + deep + "/" + deep + "/" + deep + "/" + deep;
  made.Write(path);
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 0 a#0"));
  EXPECT_THAT(Problems(*tree, made),
              ElementsAre(path + ": its op has 1205 bytes, more than 1024"));
}

TEST(FilesTreeTest, ASingleFileIsATree) {
  const MadeTree made;
  made.Write("x/a.npy");
  made.Write("x/b.npy");
  const auto tree = made.Open("x/a.npy");
  ASSERT_NE(tree, nullptr);
  const TreeEntry* entry = tree->Next();
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->file, made.path("x/a.npy"));
  EXPECT_EQ(entry->key.op, "a");
  EXPECT_EQ(tree->Next(), nullptr);
}

}  // namespace
}  // namespace msitd::trees
