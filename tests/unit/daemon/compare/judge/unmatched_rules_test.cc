// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/unmatched_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

UnmatchedRules RulesOf(std::vector<std::string> texts) {
  const auto rules = UnmatchedRules::Create(texts);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *rules : UnmatchedRules();
}

TEST(UnmatchedRulesTest, NoneMayBeAloneByDefault) {
  EXPECT_EQ(UnmatchedRules().Find("a", Io::kOutput, "0"), nullptr);
}

TEST(UnmatchedRulesTest, RuleIsForTheOpsIoAndIndexThatItNames) {
  const UnmatchedRules rules =
      RulesOf({"*.drop", "a.*@output/1", "a@b@input", "x@y"});
  EXPECT_EQ(*rules.Find("l.drop", Io::kInput, "0"), "*.drop");
  EXPECT_EQ(*rules.Find("a.b", Io::kOutput, "1"), "a.*@output/1");
  EXPECT_EQ(rules.Find("a.b", Io::kOutput, "0"), nullptr);
  EXPECT_EQ(rules.Find("a.b", Io::kInput, "1"), nullptr);
  // The text after an @ is part of the name unless it is an io.
  EXPECT_NE(rules.Find("a@b", Io::kInput, "7"), nullptr);
  EXPECT_NE(rules.Find("x@y", Io::kWeight, ""), nullptr);
}

TEST(UnmatchedRulesTest, PresetHasWhatFusedAttentionLeavesOut) {
  const UnmatchedRules rules = RulesOf({"@sdpa-eager"});
  const std::string* rule =
      rules.Find("root.layers.0.self_attn", Io::kOutput, "1");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(*rule, "@sdpa-eager");
  EXPECT_NE(rules.Find("root.layers.0", Io::kInput, "attention_mask"), nullptr);
  EXPECT_NE(rules.Find("h.0.attn.attn_dropout", Io::kOutput, "0"), nullptr);
  EXPECT_EQ(rules.Find("root.layers.0.self_attn", Io::kOutput, "0"), nullptr);
  EXPECT_EQ(rules.Find("root.layers.0.mlp", Io::kOutput, "1"), nullptr);
}

TEST(UnmatchedRulesTest, WhatIsNoRuleIsRefused) {
  for (const auto& [text, problem] :
       {std::pair<std::string, std::string>("", "1 to"),
        {"@output", "is no preset; @sdpa-eager is"},
        {"@sdpa", "is no preset"},
        {std::string(2000, 'x'), "1 to"}}) {
    const auto rules =
        UnmatchedRules::Create(std::vector<std::string>{"ok", text});
    ASSERT_FALSE(rules.ok()) << text;
    EXPECT_THAT(std::string(Message(rules.status())),
                HasSubstr("policy.allow_unmatched[1]: "));
    EXPECT_THAT(std::string(Message(rules.status())), HasSubstr(problem));
  }
  EXPECT_FALSE(UnmatchedRules::Create(std::vector<std::string>(257, "a")).ok());
}

}  // namespace
}  // namespace msitd::compare
