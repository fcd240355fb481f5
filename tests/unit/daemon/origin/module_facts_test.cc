// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/module_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace msitd::origin {
namespace {

using ::testing::ElementsAre;

constexpr char kTree[] = R"({"version":1,"modules":[
  {"op":"root","class":"m.Model","parent":null,"training":true,
   "parameters":{},"buffers":{}},
  {"op":"root.fc","class":"torch.nn.modules.linear.Linear","parent":"root",
   "training":true,"unknown":1,"buffers":{},
   "parameters":{"weight":{"shape":[2,3],"dtype":"float32"},
                 "lazy":{"shape":null,"dtype":"float32"}}}]})";

TEST(ModuleTreeTest, HasClassesParentsAndShapes) {
  const ModuleTree tree = ModuleTree::Parse(kTree);
  const ModuleFacts* const fc = tree.Find("root.fc");
  ASSERT_NE(fc, nullptr);
  EXPECT_EQ(fc->module_class, "torch.nn.modules.linear.Linear");
  EXPECT_EQ(fc->parent, "root");
  ASSERT_EQ(fc->parameters.size(), 2u);
  EXPECT_THAT(tree.Find("root")->children, ElementsAre("root.fc"));
  EXPECT_TRUE(tree.Find("root")->parent.empty());
  EXPECT_EQ(tree.Find("other"), nullptr);
  EXPECT_TRUE(tree.HasParameters("root"));
  EXPECT_FALSE(tree.HasParameters("other"));
  EXPECT_TRUE(tree.IsPlain("root.fc"));
  EXPECT_FALSE(tree.IsPlain("root"));
  EXPECT_FALSE(tree.IsPlain("other"));
}

TEST(ModuleTreeTest, AContainerIsAsPlainAsItsChildren) {
  const ModuleTree tree = ModuleTree::Parse(R"({"modules":[
    {"op":"a","class":"torch.nn.modules.container.Sequential"},
    {"op":"a.0","class":"torch.nn.modules.activation.Tanh","parent":"a"},
    {"op":"b","class":"torch.nn.modules.container.Sequential"},
    {"op":"b.0","class":"mine.RowParallelLinear","parent":"b"}]})");
  EXPECT_TRUE(tree.IsPlain("a"));
  EXPECT_FALSE(tree.IsPlain("b"));
}

TEST(ModuleTreeTest, ADamagedDocumentIsEmpty) {
  for (const std::string text :
       {"", "{", "[]", "{\"modules\":3}", "\xff\xfe", "{\"modules\":[{]}"}) {
    EXPECT_TRUE(ModuleTree::Parse(text).empty()) << text;
  }
  EXPECT_TRUE(ModuleTree::Parse(std::string(1 << 20, '[')).empty());
}

TEST(ModuleTreeTest, CyclesOfParentsEnd) {
  const ModuleTree tree = ModuleTree::Parse(
      R"({"modules":[{"op":"a","parent":"b"},{"op":"b","parent":"a"},
                     {"op":"c","parent":"c"}]})");
  EXPECT_FALSE(tree.IsPlain("a"));
  EXPECT_TRUE(tree.HasParameters("a"));
  EXPECT_TRUE(tree.Find("c")->children.empty());
}

}  // namespace
}  // namespace msitd::origin
