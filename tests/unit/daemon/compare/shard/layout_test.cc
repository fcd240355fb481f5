// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/match/match_rules.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Layout LayoutOf(std::string pattern, v1::Layout::Kind kind) {
  v1::Layout out;
  out.set_op_pattern(std::move(pattern));
  out.set_kind(kind);
  return out;
}

TEST(LayoutRulesTest, WhatIsWrongIsNamedByItsPlace) {
  using Change = std::function<void(v1::Layout&)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"op_pattern", [](auto& l) { l.set_op_pattern(""); }},
      {"op_pattern", [](auto& l) { l.set_op_pattern(std::string(1025, 'a')); }},
      {"io", [](auto& l) { l.set_io(static_cast<v1::Io>(99)); }},
      {"index", [](auto& l) { l.set_index(std::string(129, 'a')); }},
      {"kind", [](auto& l) { l.clear_kind(); }},
      {"kind", [](auto& l) { l.set_kind(static_cast<v1::Layout::Kind>(9)); }},
      {"dim", [](auto& l) { l.set_dim(32); }},
      {"dim", [](auto& l) { l.set_dim(-33); }},
      {"dim",
       [](auto& l) {
         l.set_kind(v1::Layout::SUM);
         l.set_dim(1);
       }},
      {"rank", [](auto& l) { l.set_rank(1); }},
      {"rank",
       [](auto& l) {
         l.set_kind(v1::Layout::PICK);
         l.set_rank(2);
         l.set_group_size(2);
       }},
      {"rank",
       [](auto& l) {
         l.set_kind(v1::Layout::PICK);
         l.set_rank(-1);
       }},
      {"group_size", [](auto& l) { l.set_group_size(-1); }},
      {"sections",
       [](auto& l) {
         l.set_kind(v1::Layout::SUM);
         l.add_sections(1);
       }},
      {"sections",
       [](auto& l) {
         l.set_kind(v1::Layout::CONCAT);
         l.add_sections(0);
       }},
      {"sections",
       [](auto& l) {
         l.set_kind(v1::Layout::CONCAT);
         l.add_sections(65'537);
       }},
      {"sections",
       [](auto& l) {
         l.set_kind(v1::Layout::CONCAT);
         for (int i = 0; i < 17; ++i) l.add_sections(1);
       }},
  };
  for (const auto& [field, change] : cases) {
    v1::Matching matching;
    *matching.add_target_layouts() = LayoutOf("a", v1::Layout::REPLICATED);
    change(*matching.add_target_layouts() = LayoutOf("b", v1::Layout::CONCAT));
    const auto status = MatchRules::Create(matching).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr("matching.target_layouts[1]." + field + ": "));
  }
}

TEST(LayoutRulesTest, ARuleBehindOneForEverythingIsRefused) {
  v1::Matching matching;
  *matching.add_golden_layouts() = LayoutOf("*", v1::Layout::REPLICATED);
  *matching.add_golden_layouts() = LayoutOf("a", v1::Layout::SUM);
  const auto status = MatchRules::Create(matching).status();
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("golden_layouts[1]: never counts"));
}

TEST(LayoutRulesTest, TooManyAreRefused) {
  v1::Matching matching;
  for (int i = 0; i <= kLayoutsMax; ++i) {
    *matching.add_golden_layouts() = LayoutOf("a", v1::Layout::SUM);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(MatchRules::Create(matching).status()));
}

TEST(LayoutRulesTest, TheFirstThatFitsOpIoAndIndexCounts) {
  v1::Matching matching;
  v1::Layout* rule = matching.add_golden_layouts();
  *rule = LayoutOf("*.mlp", v1::Layout::SUM);
  rule->set_io(v1::IO_OUTPUT);
  rule->set_index("1");
  *matching.add_golden_layouts() = LayoutOf("*.mlp", v1::Layout::CONCAT);
  const MatchRules checked = *MatchRules::Create(matching);
  const LayoutRules& rules = checked.golden_layouts();
  TensorKey key;
  key.op = "l.mlp";
  key.io = Io::kOutput;
  key.index = "1";
  EXPECT_EQ(rules.Find(key, false)->rule.text, "sum");
  key.index = "0";
  EXPECT_EQ(rules.Find(key, true)->rule.text, "concat(0)");
  key.op = "l.norm";
  EXPECT_EQ(rules.Find(key, false), nullptr);
}

TEST(LayoutRulesTest, ARuleMayLeaveOutWhatSaysHowItLies) {
  v1::Matching matching;
  v1::Layout* rule = matching.add_golden_layouts();
  *rule = LayoutOf("*", v1::Layout::REPLICATED);
  rule->set_unless_placed(true);
  // The rule does not apply to all ops, so other rules may follow.
  *matching.add_golden_layouts() = LayoutOf("a*", v1::Layout::SUM);
  const MatchRules checked = *MatchRules::Create(matching);
  const LayoutRules& rules = checked.golden_layouts();
  EXPECT_FALSE(rules.takes_all());
  TensorKey key;
  key.op = "ab";
  EXPECT_EQ(rules.Find(key, false)->rule.text, "replicated");
  EXPECT_EQ(rules.Find(key, true)->rule.text, "sum");
  key.op = "b";
  EXPECT_EQ(rules.Find(key, true), nullptr);
}

TEST(LayoutRulesTest, RanksHaveTheNumbersOfTheirGroups) {
  v1::Matching matching;
  v1::Layout* rule = matching.add_golden_layouts();
  *rule = LayoutOf("a", v1::Layout::SUM);
  rule->set_group_size(2);
  *matching.add_golden_layouts() = LayoutOf("b", v1::Layout::SUM);
  EXPECT_THAT(MatchRules::Create(matching)->golden_layouts().GroupNumbersOf(5),
              ElementsAre(0, 2, 5));
  matching.mutable_golden_layouts(1)->set_op_pattern("*");
  EXPECT_THAT(MatchRules::Create(matching)->golden_layouts().GroupNumbersOf(5),
              ElementsAre(0, 2));
  EXPECT_THAT(LayoutRules().GroupNumbersOf(5), ElementsAre(5));
}

}  // namespace
}  // namespace msitd::compare
