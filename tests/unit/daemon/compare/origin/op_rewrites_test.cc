// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/op_rewrites.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

OpNames Model(const std::string& root, const std::string& attention = "attn",
              const std::string& after = "") {
  OpNames out;
  for (int layer = 0; layer < 4; ++layer) {
    for (const std::string part : {"q_proj", "k_proj", "o_proj"}) {
      out.insert(fmt::format("{}layers.{}.{}.{}{}", root, layer, attention,
                             part, after));
    }
    out.insert(fmt::format("{}layers.{}.norm", root, layer));
  }
  return out;
}

std::vector<std::string> FlagsOf(const OpNames& golden, const OpNames& target) {
  std::vector<std::string> out;
  for (const OpRewrite& rewrite : FindRewrites(golden, target)) {
    out.push_back(rewrite.Flag());
  }
  return out;
}

// Returns how many target ops the rewrites turn into golden ops, as a daemon
// applies them.
size_t PairedCount(OpNames golden, OpNames target) {
  // Ops of both runs are paired without a rewrite.
  for (auto op = golden.begin(); op != golden.end();) {
    op = target.erase(*op) == 1 ? golden.erase(op) : std::next(op);
  }
  size_t count = 0;
  const std::vector<OpRewrite> rewrites = FindRewrites(golden, target);
  for (std::string op : target) {
    for (const OpRewrite& rewrite : rewrites) {
      re2::RE2::GlobalReplace(&op, rewrite.regex, rewrite.replacement);
    }
    count += golden.contains(op) ? 1 : 0;
  }
  EXPECT_EQ(rewrites.empty() ? 0 : rewrites.back().paired_count, count);
  return count;
}

TEST(OpRewritesTest, WrappersOfSeveralLevels) {
  EXPECT_THAT(FlagsOf(Model("root."), Model("root.module.")),
              ElementsAre("--rewrite '^root\\.module\\.=>root.'"));
  EXPECT_THAT(FlagsOf(Model("root."), Model("root.base_model.model.")),
              ElementsAre("--rewrite '^root\\.base_model\\.model\\.=>root.'"));
  EXPECT_THAT(FlagsOf(Model(""), Model("model.")),
              ElementsAre("--rewrite '^model\\.=>'"));
}

TEST(OpRewritesTest, WrappersOfTheGoldenRun) {
  EXPECT_THAT(FlagsOf(Model("root.module."), Model("root.")),
              ElementsAre("--rewrite '^root\\.=>root.module.'"));
  EXPECT_THAT(FlagsOf(Model("model."), Model("")),
              ElementsAre("--rewrite '^=>model.'"));
}

TEST(OpRewritesTest, PartsWithOtherNames) {
  EXPECT_THAT(FlagsOf(Model("root.", "self_attn"), Model("root.", "attn")),
              ElementsAre("--rewrite '\\.attn(\\.|$)=>.self_attn\\1'"));
}

TEST(OpRewritesTest, WrappersAtTheEndOfNames) {
  const OpNames golden = Model("root.");
  const OpNames target = Model("root.", "attn", ".base_layer");
  EXPECT_EQ(PairedCount(golden, target), 12);
}

TEST(OpRewritesTest, SeveralSubstitutions) {
  const OpNames golden = Model("root.", "self_attn");
  for (const auto& [root, attention, after] :
       {std::tuple("root.base_model.model.", "attn", ""),
        std::tuple("root.base_model.model.", "self_attn", ".base_layer"),
        std::tuple("model.", "attn", ".base_layer")}) {
    const OpNames target = Model(root, attention, after);
    EXPECT_GE(PairedCount(golden, target), 12) << root << attention << after;
  }
}

TEST(OpRewritesTest, AdjacentRepeatsAreCountedAsTheyAreReplaced) {
  PairedCount({"a.b.c", "a.b.d", "a.b.e"}, {"a.x.b.c", "a.x.b.d", "a.x.x.b.e"});
}

TEST(OpRewritesTest, NothingIsSuggestedWithoutACommonStructure) {
  EXPECT_THAT(FlagsOf(Model("root."), {}), IsEmpty());
  EXPECT_THAT(FlagsOf({}, Model("root.")), IsEmpty());
  EXPECT_THAT(FlagsOf({"a.x"}, {"b.x"}), IsEmpty());
  EXPECT_THAT(FlagsOf({"a.p", "a.q"}, {"b.x", "b.y", "b.z"}), IsEmpty());
  // Another number of layers is another model.
  EXPECT_THAT(FlagsOf({"h.0.a", "h.0.b", "h.0.c"}, {"h.9.a", "h.9.b", "h.9.c"}),
              IsEmpty());
}

TEST(OpRewritesTest, NamesThatCannotBeQuotedAreLeftOut) {
  EXPECT_THAT(FlagsOf({"r.a'b", "r.c'd"}, {"r.m.a'b", "r.m.c'd"}), IsEmpty());
  EXPECT_THAT(FlagsOf({"r.a", "r.b"}, {"r.m+.a", "r.m+.b"}),
              ElementsAre("--rewrite '^r\\.m\\+\\.=>r.'"));
}

TEST(OpRewritesTest, ManyNamesTakeAMoment) {
  OpNames golden;
  OpNames target;
  for (int i = 0; i < 4096; ++i) {
    golden.insert(fmt::format("a.{}.x.{}", i / 7, i % 7));
    target.insert(fmt::format("b.{}.y.{}.z", i / 7, i % 7));
  }
  const auto start = std::chrono::steady_clock::now();
  FindRewrites(golden, target);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace msitd::compare
