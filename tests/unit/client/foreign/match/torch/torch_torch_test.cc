// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/torch/torch_torch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int kLayers = 11;

std::string Module(const std::string& name, const std::string& type,
                   const std::vector<std::string>& children = {}) {
  return fmt::format(R"({{"name":"{}","type":"{}","children":[{}]}})", name,
                     type, fmt::join(children, ","));
}

// Returns a model whose layers are in `list`. Each layer has an attention and
// an mlp with two linear modules, whose names are in `linears`.
RunFacts Model(const std::string& list, const std::vector<std::string>& linears,
               const std::string& attention = "attn") {
  RunBuilder run("msit");
  std::vector<std::string> layers;
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = fmt::format("{}.{}", list, i);
    std::vector<std::string> parts;
    for (size_t j = 0; j < linears.size(); ++j) {
      const std::string op = at + ".mlp." + linears[j];
      parts.push_back(Module(op, "Linear"));
      run.Op(op, {4}, {static_cast<int64_t>(8 + j)});
    }
    run.Op(at + ".mlp.gelu", {8}, {8});
    run.Op(at + "." + attention, {4}, {4});
    run.Op(at, {4}, {4});
    layers.push_back(Module(at, "Layer",
                            {Module(at + "." + attention, "Attention"),
                             Module(at + ".mlp", "MLP", parts)}));
  }
  run.File("msit/model_tree.json",
           Module("root", "Model", {Module(list, "ModuleList", layers)}));
  return run.Build();
}

std::vector<std::string> TensorPairsOf(const Mapping& mapping) {
  std::vector<std::string> out;
  for (const Line& line : mapping.lines) {
    if (line.golden.has_value() && line.target.has_value()) {
      out.push_back(ToName(*line.golden) + "=" + ToName(*line.target));
    }
  }
  return out;
}

TEST(TorchTorchTest, NamesComeFirst) {
  const RunFacts golden = Model("root.layers", {"up", "down"});
  const auto mapping = MatchTorchWithTorch(golden, golden);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(mapping->left, IsEmpty());
  EXPECT_THAT(mapping->lines, IsEmpty());
  EXPECT_TRUE(mapping->pairs_others);
  EXPECT_EQ(mapping->pair_count, 10u * kLayers);
}

TEST(TorchTorchTest, LayersBelongTogetherByTheirPlaces) {
  const auto mapping =
      MatchTorchWithTorch(Model("root.h", {"up", "down"}),
                          Model("root.layers", {"up", "down"}, "self_attn"));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(mapping->left, IsEmpty());
  const auto pairs = TensorPairsOf(*mapping);
  EXPECT_EQ(pairs.size(), 5u * kLayers);
  for (const char* const pair :
       {"root.h.3=root.layers.3", "root.h.10.mlp.down=root.layers.10.mlp.down",
        // These are paired by their type.
        "root.h.0.attn=root.layers.0.self_attn",
        // A call inside a module, which is not in the tree.
        "root.h.0.mlp.gelu=root.layers.0.mlp.gelu"}) {
    EXPECT_THAT(pairs, Contains(pair));
  }
}

TEST(TorchTorchTest, AsManyOfATypeBelongTogetherInOrder) {
  const auto mapping =
      MatchTorchWithTorch(Model("root.layers", {"fc1", "fc2"}),
                          Model("root.layers", {"up", "down"}));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(TensorPairsOf(*mapping),
              Contains("root.layers.0.mlp.fc2=root.layers.0.mlp.down"));
  const auto other = MatchTorchWithTorch(Model("root.layers", {"fc1", "fc2"}),
                                         Model("root.layers", {"up"}));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->left.size(), 2u);
  EXPECT_EQ(other->left[0].reason,
            "the other model has no module at its position");
  EXPECT_FALSE(other->left[0].is_expected);
}

TEST(TorchTorchTest, WhatHasAnotherSizeIsAnotherModule) {
  const auto run = [](const std::string& name, int64_t size) {
    return RunBuilder("msit")
        .Op("root." + name, {4}, {size})
        .File("model_tree.json",
              Module("root", "Model", {Module("root." + name, "Linear")}))
        .Build();
  };
  const auto mapping = MatchTorchWithTorch(run("a", 8), run("b", 9));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_THAT(TensorPairsOf(*mapping),
              ElementsAre("root.a.input.0=root.b.input.0"));
  std::vector<std::string> reasons;
  for (const LeftTensors& left : mapping->left) reasons.push_back(left.reason);
  EXPECT_THAT(reasons, UnorderedElementsAre(
                           "it has a different size in the other model",
                           "it has a different size in the other model"));
}

TEST(TorchTorchTest, TreeThatIsNoneIsNoted) {
  RunFacts broken = Model("root.h", {"up"});
  broken.files[0].text = "[";
  const auto mapping =
      MatchTorchWithTorch(broken, Model("root.layers", {"up"}));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  ASSERT_EQ(mapping->notes.size(), 1u);
  EXPECT_THAT(mapping->notes[0], HasSubstr("model_tree.json"));
  EXPECT_THAT(TensorPairsOf(*mapping), Contains("root.h.3=root.layers.3"));
}

}  // namespace
}  // namespace msitd::match
