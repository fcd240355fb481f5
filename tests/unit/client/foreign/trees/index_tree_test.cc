// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/index_tree.h"

#include <gmock/gmock.h>

#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kIndex[] = "tensors.jsonl";

std::string Line(const std::string& file, const std::string& op, int sequence,
                 const std::string& more = "") {
  return fmt::format(
      R"({{"file": "{}", "rank": 0, "device": "cpu:0", "token": 0, "op": "{}", )"
      R"("call": 0, "io": "output", "index": "0", "kind": "tensor", )"
      R"("dtype": "float32", "shape": [1], "sequence": {}{}}})"
      "\n",
      file, op, sequence, more);
}

TEST(IndexTreeTest, RecordsComeInTheOrderOfTheirSequence) {
  const MadeTree made;
  made.Write("r/a.npy");
  made.Write("r/.b.npy");
  made.Write("r/doc.txt", "text");
  made.Write(kIndex,
             Line("r/a.npy", "a", 7) + Line("r/.b.npy", ".b", 3) +
                 R"({"rank": 1, "device": "cpu:0", "token": 4, "op": "n", )"
                 R"("call": 2, "io": "input", "index": "x", "kind": "number", )"
                 R"("dtype": "int64", "shape": [], "value": "5", )"
                 R"("sequence": 0})"
                 "\n"
                 R"({"file": "r/doc.txt", "rank": 1, "device": "cpu:0", )"
                 R"("token": 0, "op": "d.json", "call": 0, "io": "state", )"
                 R"("index": "", "kind": "document", "dtype": "uint8", )"
                 R"("shape": [4], "sequence": 1})");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kFiles);
  EXPECT_TRUE(tree->has_known_order());
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(
      DescribeAll(*tree),
      ElementsAre("0 cpu:0 0 .b#0 output:0", "0 cpu:0 0 a#0 output:0",
                  "1 cpu:0 0 d.json#0 state:", "1 cpu:0 4 n#2 input:x"));
  EXPECT_THAT(Problems(*tree, made), IsEmpty());
}

TEST(IndexTreeTest, AnExportOfARunWithoutAnOrderHasNone) {
  const MadeTree made;
  made.Write("a.npy");
  made.Write(kIndex, Line("a.npy", "a", 7, R"(, "order": "unknown")"));
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_FALSE(tree->has_known_order());
}

TEST(IndexTreeTest, OnlyFilesOfTheFolderAreOpened) {
  const MadeTree made;
  made.Write("outside.npy");
  made.Write("in/a.npy");
  made.Link("in/folder", made.path());
  made.Link("in/link.npy", made.path("outside.npy"));
  made.Write(std::string("in/") + kIndex,
             Line("../outside.npy", "up", 0) +
                 Line(made.path("outside.npy"), "absolute", 1) +
                 Line("folder/outside.npy", "linked", 2) +
                 Line("link.npy", "link", 3) + Line("", "none", 4) +
                 Line("missing.npy", "missing", 5) + Line("a.npy", "a", 6));
  const auto tree = made.Open("in");
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 cpu:0 0 a#0 output:0"));
  EXPECT_GE(tree->TakeProblems().size(), 6);
}

TEST(IndexTreeTest, WhatCannotBeReadIsAProblem) {
  const MadeTree made;
  made.Write("a.npy");
  made.Write("other.npy");
  made.Write(kIndex, Line("a.npy", "a", 0) + "[1]\n{\n" +
                         Line("a.npy", "lost", 1, R"(, "problem": "gone")") +
                         R"({"rank": -1})" + "\n" + R"({"file": "a.n)");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 cpu:0 0 a#0 output:0"));
  EXPECT_THAT(
      Problems(*tree, made),
      ElementsAre(
          HasSubstr("line 2: it is not a JSON object"), HasSubstr("line 3"),
          HasSubstr("line 5: it has no valid \"rank\""), HasSubstr("line 6"),
          HasSubstr("output 0 of lost: missing in the export: gone"),
          HasSubstr("other.npy: it is not read: tensors.jsonl does "
                    "not name it")));
}

}  // namespace
}  // namespace msitd::trees
