// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msit/module_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::write {
namespace {

constexpr char kMsit[] =
    R"({"name": "root", "type": "Net", "children": [{"name": "root.fc", )"
    R"("type": "Linear", "children": []}]})";

TEST(ModuleTreeTest, BothDocumentsSayTheSame) {
  const ModuleTree ours = ParseModuleTree(
      R"({"version": 1, "modules": [
          {"op": "root", "class": "a.b.Net", "parent": null,
           "parameters": {}, "buffers": {"b": {"shape": [1]}}},
          {"op": "root.fc", "class": "torch.Linear", "parent": "root"}]})");
  const ModuleTree msit = ParseModuleTree(kMsit);
  EXPECT_FALSE(ours.is_of_msit);
  EXPECT_TRUE(msit.is_of_msit);
  for (const ModuleTree& tree : {ours, msit}) {
    EXPECT_EQ(tree.TypeOf("root"), "Net");
    EXPECT_EQ(tree.TypeOf("root.fc"), "Linear");
    EXPECT_EQ(tree.TypeOf("root.no"), "");
    EXPECT_EQ(MsitModelTree(tree), kMsit);
  }
}

TEST(ModuleTreeTest, ParametersAreKept) {
  const char* const text =
      R"({"name": "root", "type": "Net", "parameters": )"
      R"({"w":{"dtype":"bfloat16","shape":[2,3]}}, "children": []})";
  const ModuleTree tree = ParseModuleTree(
      R"({"modules": [{"op": "root", "class": "Net", "parent": null,
          "parameters": {"w": {"shape": [2, 3], "dtype": "bfloat16"}}}]})");
  EXPECT_EQ(MsitModelTree(tree), text);
  EXPECT_EQ(MsitModelTree(ParseModuleTree(text)), text);
}

TEST(ModuleTreeTest, ParametersThatAreNoneAreLeftOut) {
  for (const char* parameters : {"3", "[]", "{}", "null"}) {
    const ModuleTree tree = ParseModuleTree(
        R"({"modules": [{"op": "root", "class": "Net", "parameters": )" +
        std::string(parameters) + "}]}");
    EXPECT_EQ(MsitModelTree(tree),
              R"({"name": "root", "type": "Net", "children": []})");
  }
}

TEST(ModuleTreeTest, WhatIsNoTreeIsEmpty) {
  for (const char* text :
       {"", "[]", "{", "3", R"({"modules": 3})", R"({"modules": [3, {}]})",
        R"({"children": [[[]]], "name": 3})"}) {
    EXPECT_LE(ParseModuleTree(text).modules.size(), 1u) << text;
  }
  EXPECT_EQ(MsitModelTree(ParseModuleTree("")), "");
}

TEST(ModuleTreeTest, DeepNestingIsCut) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) {
    text += R"({"name": ")" + std::to_string(i) + R"(", "children": [)";
  }
  for (int i = 0; i < 100'000; ++i) text += "]}";
  EXPECT_EQ(ParseModuleTree(text).modules.size(), 256u);
}

TEST(ModuleTreeTest, ParentsThatComeLaterAreNoParents) {
  const ModuleTree tree = ParseModuleTree(
      R"({"modules": [{"op": "a", "class": "A", "parent": "b"},
                      {"op": "b", "class": "B", "parent": "a"}]})");
  EXPECT_EQ(MsitModelTree(tree),
            R"({"name": "a", "type": "A", "children": [{"name": "b", )"
            R"("type": "B", "children": []}]})");
}

}  // namespace
}  // namespace msitd::write
