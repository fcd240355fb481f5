// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto policy = ParsePolicy(text);
  return policy.ok() ? "" : std::string(Message(policy.status()));
}

TEST(PolicyFileTest, ARuleIsCutAtItsLastColon) {
  const auto rule = ParseRule("aten::mm*: cosine >= 0.999 ");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->op_pattern(), "aten::mm*");
  EXPECT_EQ(rule->predicate(), "cosine >= 0.999");
}

TEST(PolicyFileTest, SlashesMakeARegularExpression) {
  const auto rule = ParseRule("/layers\\.[0-3]/: nl2 < 1");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->op_regex(), "layers\\.[0-3]");
  EXPECT_EQ(rule->op_pattern(), "");
}

TEST(PolicyFileTest, ATolerancePresetOrPredicateMayStand) {
  EXPECT_EQ(ParseRule("x: @torch")->preset(), v1::Policy::TORCH);
  const auto both = ParseRule("x: rtol=1e-3 atol=0.5 cosine > 0.9");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->rtol(), 1e-3);
  EXPECT_EQ(both->atol(), 0.5);
  EXPECT_EQ(both->predicate(), "cosine > 0.9");
  EXPECT_FALSE(ParseRule("x: rtol=1e-3")->has_atol());
  EXPECT_THAT(ErrorOf("x: @toch"),
              HasSubstr("the presets are torch, polygraphy"));
  EXPECT_THAT(ErrorOf("x: rtol=1x"), HasSubstr("\"1x\" is not a number"));
}

TEST(PolicyFileTest, HalfARuleIsRefused) {
  for (const char* text : {"", "x", ":", "x:", ": cosine >= 1"}) {
    EXPECT_FALSE(ParseRule(text).ok()) << text;
  }
}

TEST(PolicyFileTest, LinesKeepTheirOrder) {
  const auto policy = ParsePolicy(
      "# loose for norms\n\n  *.norm: max_abs <= 1e-2\r\n*: cosine >= 0.99");
  ASSERT_TRUE(policy.ok());
  ASSERT_EQ(policy->rules_size(), 2);
  EXPECT_EQ(policy->rules(0).op_pattern(), "*.norm");
  EXPECT_EQ(policy->rules(0).predicate(), "max_abs <= 1e-2");
  EXPECT_EQ(policy->rules(1).op_pattern(), "*");
}

TEST(PolicyFileTest, ALineThatIsWrongIsNumbered) {
  EXPECT_THAT(ErrorOf("a: b\n\nnonsense\n"), HasSubstr("line 3: \"nonsense\""));
}

TEST(PolicyFileTest, JsonIsThatOfTheProto) {
  const auto policy = ParsePolicy(
      "\n {\"rules\": [{\"op_pattern\": \"a\", \"predicate\": \"kl <= 1\"}]}");
  ASSERT_TRUE(policy.ok());
  ASSERT_EQ(policy->rules_size(), 1);
  EXPECT_EQ(policy->rules(0).predicate(), "kl <= 1");
  EXPECT_THAT(ErrorOf("{\"rule\": []}"),
              HasSubstr("not valid JSON for a policy"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not valid JSON for a policy"));
}

TEST(PolicyFileTest, AFileThatIsNotThereIsNoUsageError) {
  EXPECT_FALSE(
      absl::IsInvalidArgument(ReadPolicyFile("/nonexistent/p").status()));
}

TEST(CaptureRulesTest, AListAndAWholePolicyHaveTheSameRules) {
  const std::string rules =
      "[{\"filter\":{\"op_patterns\":[\"a*\"]},\"level\":\"CAPTURE_LEVEL_"
      "FULL\"},"
      "{\"level\":\"CAPTURE_LEVEL_OFF\"}]";
  const auto list = ParseCaptureRules("\n " + rules);
  const auto whole = ParseCaptureRules(
      "{\"revision\": \"3\", \"first_token\": \"7\", \"rules\": " + rules +
      "}");
  ASSERT_TRUE(list.ok() && whole.ok());
  EXPECT_EQ(list->SerializeAsString(), whole->SerializeAsString());
  ASSERT_EQ(list->rules_size(), 2);
  EXPECT_EQ(list->rules(0).filter().op_patterns(0), "a*");
  EXPECT_EQ(list->rules(1).level(), v1::CAPTURE_LEVEL_OFF);
  EXPECT_FALSE(whole->has_first_token());
}

TEST(CaptureRulesTest, WhatIsNoRuleIsRefused) {
  const auto error = [](std::string_view text) {
    return std::string(Message(ParseCaptureRules(text).status()));
  };
  EXPECT_THAT(error("[{\"lvl\": 1}]"),
              HasSubstr("not valid JSON for capture rules"));
  EXPECT_THAT(error("{\"rules\": 1}"),
              HasSubstr("not valid JSON for a capture policy"));
  EXPECT_THAT(error("[]"), HasSubstr("has no rules"));
  EXPECT_THAT(error(""), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace msitd::ask
