// SPDX-License-Identifier: Apache-2.0
#include "protos/capture/capture_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/base/request.h"

namespace msitd::capture {
namespace {

Rule Full(std::vector<std::string> patterns) {
  Rule rule;
  rule.level = Level::kFull;
  rule.tensors.op_patterns = std::move(patterns);
  return rule;
}

Policies Chain(std::vector<Policy> policies) {
  Policies chain;
  for (Policy& policy : policies) EXPECT_TRUE(Add(std::move(policy), chain));
  return chain;
}

Policy OneRule(uint64_t revision, int64_t first_token, Rule rule) {
  return {revision, first_token, {std::move(rule)}};
}

Level LevelOf(const Schedule& schedule, int64_t token, std::string_view op,
              Io io = Io::kOutput, std::string_view device = "cpu:0") {
  const Level level = schedule.LevelOf(device, token, op, io);
  EXPECT_EQ(schedule.LevelOf(device, token, schedule.RulesOf(op), io), level);
  return level;
}

bool MayRecord(const Schedule& schedule, int64_t token, std::string_view op,
               Io io) {
  const bool may_record = schedule.MayRecord(token, op, io);
  EXPECT_EQ(schedule.MayRecord(token, schedule.RulesOf(op), io), may_record);
  return may_record;
}

TEST(CapturePolicyTest, FirstRuleThatAgreesDecides) {
  Rule summary = Full({"layers.*"});
  summary.level = Level::kSummary;
  const Schedule schedule({{1, 0, {Full({"layers.3.*"}), summary}}}, 0);
  EXPECT_EQ(LevelOf(schedule, 0, "layers.3.attn"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 0, "layers.4.attn"), Level::kSummary);
  EXPECT_EQ(LevelOf(schedule, 0, "lm_head"), Level::kOff);
}

TEST(CapturePolicyTest, ARuleOfRequestsAppliesWithOneOfThem) {
  Rule named = Full({"layers.*"});
  named.tensors.requests = {"r1", "r2"};
  Rule summary = Full({"layers.3"});
  summary.level = Level::kSummary;
  const Schedule schedule({{1, 0, {named, summary}}}, 0);
  EXPECT_TRUE(schedule.has_requests());
  EXPECT_EQ(LevelOf(schedule, 0, "layers.3"), Level::kSummary);
  EXPECT_EQ(LevelOf(schedule, 0, "layers.4"), Level::kOff);
  EXPECT_FALSE(MayRecord(schedule, 0, "layers.4", Io::kOutput));
  EXPECT_EQ(schedule.RulesOfRequest("r"), RuleBits());
  const RuleBits requested = schedule.RulesOfRequest("r2");
  for (const std::string_view op : {"layers.3", "layers.4"}) {
    const RuleBits rules = schedule.RulesOf(op);
    EXPECT_EQ(schedule.LevelOf("cpu:0", 0, op, Io::kOutput, requested),
              Level::kFull);
    EXPECT_EQ(schedule.LevelOf("cpu:0", 0, rules, Io::kOutput, requested),
              Level::kFull);
    EXPECT_TRUE(schedule.MayRecord(0, op, Io::kUnspecified, requested));
    EXPECT_TRUE(schedule.MayRecord(0, rules, Io::kUnspecified, requested));
  }
  EXPECT_FALSE(Schedule({{1, 0, {summary}}}, 0).has_requests());
}

TEST(CapturePolicyTest, AnswersChangeOnlyWithTheSpan) {
  std::mt19937 random(7);
  const auto token = [&] {
    return std::uniform_int_distribution(0, 20)(random);
  };
  for (int round = 0; round < 200; ++round) {
    Policies policies;
    for (uint64_t revision = 1; revision <= 3; ++revision) {
      Rule rule = Full({revision == 2 ? "b" : "a"});
      for (int i = 0; i < 2; ++i) {
        const int64_t first = token();
        rule.tensors.tokens.push_back({first, first + token()});
      }
      if (round % 3 == 0) rule.tensors.tokens.back().last = kTokenMax;
      ASSERT_TRUE(Add(OneRule(revision, token(), rule), policies));
    }
    const Schedule schedule(policies, 0);
    for (int64_t t = 0; t < 50; ++t) {
      if (schedule.SpanOf(t) != schedule.SpanOf(t + 1)) continue;
      for (const char* op : {"a", "b"}) {
        EXPECT_EQ(LevelOf(schedule, t, op), LevelOf(schedule, t + 1, op));
        EXPECT_EQ(MayRecord(schedule, t, op, Io::kUnspecified),
                  MayRecord(schedule, t + 1, op, Io::kUnspecified));
      }
    }
  }
}

TEST(CapturePolicyTest, SpansOfEveryTokenAreOne) {
  const Schedule schedule({OneRule(1, 0, Full({"a"}))}, 0);
  EXPECT_EQ(schedule.SpanOf(0), schedule.SpanOf(kTokenMax));
}

TEST(CapturePolicyTest, EveryListThatIsNotEmptyMustAgree) {
  Rule rule = Full({"a", "b*"});
  rule.tensors.devices = {"npu:1", "npu:2"};
  rule.tensors.tokens = {{0, 3}, {10, 10}};
  rule.tensors.ios = {Io::kInput};
  const Schedule schedule({OneRule(1, 0, rule)}, 0);
  EXPECT_EQ(LevelOf(schedule, 10, "bc", Io::kInput, "npu:2"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 4, "bc", Io::kInput, "npu:2"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 10, "c", Io::kInput, "npu:2"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 10, "bc", Io::kOutput, "npu:2"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 10, "bc", Io::kInput, "npu:3"), Level::kOff);
}

TEST(CapturePolicyTest, RulesOfOtherRanksDoNotCount) {
  Rule rule = Full({});
  rule.tensors.ranks = {1, 3};
  const Policy policy = OneRule(1, 0, rule);
  EXPECT_EQ(LevelOf(Schedule({policy}, 3), 0, "a"), Level::kFull);
  EXPECT_EQ(LevelOf(Schedule({policy}, 2), 0, "a"), Level::kOff);
}

TEST(CapturePolicyTest, NoRuleIsOff) {
  EXPECT_EQ(LevelOf(Schedule({{1, 0, {}}}, 0), 0, "a"), Level::kOff);
}

TEST(CapturePolicyTest, TensorMayBeRecordedIfItIsOnSomeDevice) {
  Rule off;
  off.tensors.devices = {"npu:0"};
  Rule full = Full({"a"});
  full.tensors.tokens = {{2, 3}};
  const Schedule schedule({{1, 1, {off, full}}}, 0);
  EXPECT_TRUE(MayRecord(schedule, 0, "b", Io::kInput));
  EXPECT_TRUE(MayRecord(schedule, 2, "a", Io::kInput));
  EXPECT_FALSE(MayRecord(schedule, 2, "b", Io::kInput));
  EXPECT_FALSE(MayRecord(schedule, 4, "a", Io::kInput));
}

TEST(CapturePolicyTest, RuleThatIsOffEverywhereHidesThoseBehindIt) {
  Rule off = Full({"a*"});
  off.level = Level::kOff;
  const Schedule schedule({{1, 0, {off, Full({})}}}, 0);
  EXPECT_FALSE(MayRecord(schedule, 0, "a1", Io::kInput));
  EXPECT_TRUE(MayRecord(schedule, 0, "b1", Io::kInput));
}

TEST(CapturePolicyTest, OpMayBeRecordedIfOneOfItsSidesIs) {
  Rule off = Full({"a*"});
  off.level = Level::kOff;
  off.tensors.ios = {Io::kInput};
  Rule full = Full({"a1", "c"});
  full.tensors.ios = {Io::kOutput};
  const Schedule schedule({{1, 0, {off, full}}}, 0);
  EXPECT_TRUE(MayRecord(schedule, 0, "a1", Io::kUnspecified));
  EXPECT_TRUE(MayRecord(schedule, 0, "c", Io::kUnspecified));
  EXPECT_FALSE(MayRecord(schedule, 0, "a2", Io::kUnspecified));
  EXPECT_FALSE(MayRecord(schedule, 0, "b", Io::kUnspecified));
}

TEST(CapturePolicyTest, RankMayRecordIfSomeRuleIsForIt) {
  Rule none;
  none.tensors.ranks = {1};
  Rule some = Full({"mlp.*"});
  some.tensors.ranks = {1, 2};
  // A rule with level off and a condition excludes only the tensors that match
  // it.
  Rule not_norms;
  not_norms.tensors.op_patterns = {"*.norm"};
  const Policies policies = {{1, 0, {not_norms, none, some}}};
  const RecordedRanks ranks = FindRecordedRanks(policies);
  EXPECT_FALSE(ranks.Has(0));
  EXPECT_FALSE(ranks.Has(1));
  EXPECT_TRUE(ranks.Has(2));
  EXPECT_FALSE(ranks.has_most);
  EXPECT_EQ(ranks.others, std::vector<int32_t>{2});
  // Later policies and the tokens before the first policy are included.
  const RecordedRanks later =
      FindRecordedRanks({policies[0], {2, 5, {Full({})}}});
  EXPECT_TRUE(later.Has(0));
  EXPECT_TRUE(later.has_most);
  EXPECT_TRUE(later.others.empty());
  EXPECT_TRUE(FindRecordedRanks({{1, 7, {none}}}).Has(1));
}

TEST(CapturePolicyTest, RanksThatAreLeftOutByNameAreTheOnlyOnes) {
  Rule none;
  none.tensors.ranks = {7, 3};
  const RecordedRanks ranks = FindRecordedRanks({{1, 0, {none, Full({})}}});
  EXPECT_TRUE(ranks.has_most);
  EXPECT_EQ(ranks.others, (std::vector<int32_t>{3, 7}));
  EXPECT_FALSE(ranks.Has(7));
  EXPECT_TRUE(ranks.Has(8));
}

TEST(CapturePolicyTest, RulesForSomeTensorsMayLeaveOutTheFirst) {
  Rule none;
  none.tensors.ranks = {3};
  Rule norms = Full({"*.norm"});
  norms.tensors.ranks = {4, 5};
  Rule not_norms;
  not_norms.tensors.ranks = {5, 6};
  not_norms.tensors.op_patterns = {"*.norm"};
  const Policy first{1, 0, {none, norms, not_norms, Full({})}};
  const RecordedRanks ranks = FindRanksRecordedAtFirst({first});
  EXPECT_TRUE(ranks.has_most);
  EXPECT_EQ(ranks.others, (std::vector<int32_t>{3, 5, 6}));
  // Later policies are not included.
  EXPECT_FALSE(FindRanksRecordedAtFirst({first, {2, 5, {Full({})}}}).Has(3));
  EXPECT_FALSE(FindRanksRecordedAtFirst({{1, 0, {norms}}}).Has(4));
  EXPECT_FALSE(FindRanksRecordedAtFirst({{1, 0, {norms}}}).has_most);
  // Everything is recorded before the first token of the first policy.
  EXPECT_TRUE(FindRanksRecordedAtFirst({{1, 7, {none}}}).Has(3));
}

TEST(CaptureScheduleTest, PolicyHoldsFromItsFirstTokenOn) {
  const Schedule schedule(
      Chain({OneRule(1, 5, Full({"a"})), OneRule(2, 9, Full({"b"}))}), 0);
  EXPECT_EQ(schedule.revision(), 2u);
  EXPECT_EQ(LevelOf(schedule, 4, "b"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 5, "b"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 8, "a"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 9, "a"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 9, "b"), Level::kFull);
}

TEST(CaptureScheduleTest, PolicyReplacesWhatHasNotBegun) {
  const Schedule schedule(
      Chain({OneRule(1, 0, Full({"a"})), OneRule(2, 100, Full({"b"})),
             OneRule(3, 50, Full({"c"}))}),
      0);
  EXPECT_EQ(LevelOf(schedule, 49, "a"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 49, "b"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 100, "b"), Level::kOff);
  EXPECT_EQ(LevelOf(schedule, 100, "c"), Level::kFull);
}

TEST(CaptureScheduleTest, ForgetsTheOldestOfMany) {
  std::vector<Policy> policies;
  for (int i = 1; i <= 40; ++i) {
    policies.push_back(OneRule(i, i, Full({"op" + std::to_string(i)})));
  }
  const Schedule schedule(Chain(policies), 0);
  EXPECT_EQ(LevelOf(schedule, 40, "op40"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 39, "op39"), Level::kFull);
  // Policy 25 is the oldest that is kept. It also replaces the older ones.
  EXPECT_EQ(LevelOf(schedule, 3, "op25"), Level::kFull);
  EXPECT_EQ(LevelOf(schedule, 3, "op3"), Level::kOff);
}

TEST(CaptureScheduleTest, ForgetsTheOldestOfLongOnes) {
  Rule rule = Full({});
  rule.tensors.op_patterns.assign(Selector::kOpPatternsMax,
                                  std::string(kOpBytesMax, 'x'));
  Policies policies;
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(Add({uint64_t(i), i, {rule}}, policies));
  }
  EXPECT_LE(Encode(policies).size(), kPoliciesBytesMax);
  EXPECT_EQ(policies.size(), 3u);
  EXPECT_EQ(policies.front().first_token, 1);
  Policies unchanged = policies;
  EXPECT_FALSE(Add({11, 11, {rule, rule, rule, rule}}, policies));
  EXPECT_TRUE(policies == unchanged);
}

class CaptureCodecTest : public ::testing::Test {
 protected:
  uint64_t Draw(uint64_t bound) { return random_() % bound; }

  Rule DrawRule() {
    Rule rule;
    rule.level = static_cast<Level>(Draw(kLevelCount));
    for (uint64_t i = Draw(4); i > 0; --i) {
      rule.tensors.ranks.push_back(static_cast<int32_t>(Draw(kRankMax + 1)));
      rule.tensors.devices.push_back("npu:" + std::to_string(Draw(9)));
      rule.tensors.tokens.push_back(
          {static_cast<int64_t>(Draw(kTokenMax)), kTokenMax});
      rule.tensors.op_patterns.push_back(std::string(Draw(200), 'x') + "*");
      rule.tensors.ios.push_back(static_cast<Io>(1 + Draw(7)));
    }
    if (Draw(3) == 0) rule.tensors.requests = {"r", std::string(128, 'x')};
    return rule;
  }

  Policies DrawPolicies() {
    Policies policies;
    const uint64_t count = 1 + Draw(3);
    for (uint64_t i = 1; i <= count; ++i) {
      Policy policy;
      policy.revision = i * 1000 + Draw(1000);
      policy.first_token = static_cast<int64_t>(Draw(kTokenMax));
      for (uint64_t j = Draw(6); j > 0; --j) policy.rules.push_back(DrawRule());
      EXPECT_TRUE(Add(std::move(policy), policies));
    }
    return policies;
  }

  std::mt19937_64 random_{7};
};

TEST_F(CaptureCodecTest, RoundTrips) {
  for (int i = 0; i < 500; ++i) {
    const Policies policies = DrawPolicies();
    Policies decoded;
    ASSERT_TRUE(Decode(Encode(policies), decoded));
    ASSERT_TRUE(decoded == policies);
  }
}

TEST_F(CaptureCodecTest, CutOrLongerBytesAreRefused) {
  for (int i = 0; i < 50; ++i) {
    const std::string bytes = Encode(DrawPolicies());
    Policies decoded;
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(Decode(std::string_view(bytes).substr(0, size), decoded));
    }
    ASSERT_FALSE(Decode(bytes + '\0', decoded));
  }
}

TEST_F(CaptureCodecTest, SpoiledBytesAreRefusedOrInsideTheBounds) {
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = Encode(DrawPolicies());
    for (uint64_t flips = 1 + Draw(4); flips > 0; --flips) {
      bytes[Draw(bytes.size())] = static_cast<char>(Draw(256));
    }
    Policies decoded;
    if (!Decode(bytes, decoded)) continue;
    ASSERT_LE(decoded.size(), kPoliciesMax);
    for (const Policy& policy : decoded) {
      ASSERT_LE(policy.rules.size(), kRulesMax);
      ASSERT_LE(policy.first_token, kTokenMax);
      for (const Rule& rule : policy.rules) {
        ASSERT_LE(rule.tensors.op_patterns.size(), Selector::kOpPatternsMax);
        for (const int32_t rank : rule.tensors.ranks) ASSERT_LE(rank, kRankMax);
      }
    }
  }
}

TEST_F(CaptureCodecTest, OneOverABoundIsRefused) {
  const auto is_taken = [](const Policy& policy) {
    Policies decoded;
    return Decode(Encode({policy}), decoded);
  };
  Policy policy = OneRule(1, 0, Rule());
  policy.rules[0].tensors.ranks.assign(Selector::kRanksMax, 0);
  EXPECT_TRUE(is_taken(policy));
  policy.rules[0].tensors.ranks.push_back(0);
  EXPECT_FALSE(is_taken(policy));
  policy.rules.assign(kRulesMax, Rule());
  EXPECT_TRUE(is_taken(policy));
  policy.rules.emplace_back();
  EXPECT_FALSE(is_taken(policy));
  policy.rules.assign(1, Full({std::string(kOpBytesMax + 1, 'x')}));
  EXPECT_FALSE(is_taken(policy));
  policy.rules.assign(1, Rule());
  policy.rules[0].tensors.requests.assign(Selector::kRequestsMax, "r");
  EXPECT_TRUE(is_taken(policy));
  policy.rules[0].tensors.requests.emplace_back("r");
  EXPECT_FALSE(is_taken(policy));
  policy.rules[0].tensors.requests = {std::string(kRequestIdBytesMax + 1, 'x')};
  EXPECT_FALSE(is_taken(policy));
}

TEST_F(CaptureCodecTest, APolicyWithoutRequestsIsOfTheFirstVersion) {
  Policy policy = OneRule(1, 0, Full({"a"}));
  EXPECT_EQ(Encode({policy})[0], 1);
  policy.rules[0].tensors.requests = {"r"};
  EXPECT_EQ(Encode({policy})[0], 2);
  std::string bytes = Encode({policy});
  Policies decoded;
  bytes[0] = 3;
  EXPECT_FALSE(Decode(bytes, decoded));
}

TEST_F(CaptureCodecTest, NoneOrUnorderedOnesAreRefused) {
  Policies decoded;
  EXPECT_FALSE(Decode(Encode({}), decoded));
  EXPECT_TRUE(Decode(Encode({{1, 1, {}}, {2, 2, {}}}), decoded));
  EXPECT_FALSE(Decode(Encode({{1, 2, {}}, {2, 2, {}}}), decoded));
  EXPECT_FALSE(Decode(Encode({{2, 1, {}}, {2, 2, {}}}), decoded));
}

}  // namespace
}  // namespace msitd::capture
