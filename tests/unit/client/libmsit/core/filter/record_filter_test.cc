// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/record_filter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/libmsit/core/filter/op_rules_cache.h"
#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

using capture::Level;

capture::Policy Ask(uint64_t revision, int64_t first_token,
                    std::vector<std::string> patterns) {
  capture::Rule rule;
  rule.level = Level::kFull;
  rule.tensors.op_patterns = std::move(patterns);
  return {revision, first_token, {std::move(rule)}};
}

std::unique_ptr<const capture::Schedule> Schedule(capture::Policies policies) {
  return std::make_unique<const capture::Schedule>(std::move(policies), 0);
}

Level Take(RecordFilter& filter, std::string_view op, int64_t token = 0) {
  return filter.Take("cpu:0", token, op, Io::kOutput);
}

TEST(RecordFilterTest, WithoutPolicyEverythingIsFull) {
  RecordFilter filter;
  EXPECT_EQ(Take(filter, "a"), Level::kFull);
  EXPECT_TRUE(filter.MayRecord(0, "a", Io::kUnspecified));
  filter.Set(Schedule({Ask(1, 0, {"b"})}));
  EXPECT_EQ(Take(filter, "a"), Level::kOff);
  filter.Set(nullptr);
  EXPECT_EQ(Take(filter, "a"), Level::kFull);
  EXPECT_TRUE(filter.MayRecord(0, "a", Io::kUnspecified));
  EXPECT_EQ(filter.filtered_count(), 1u);
}

TEST(RecordFilterTest, ALevelIsToldWithoutCounting) {
  RecordFilter filter;
  EXPECT_EQ(filter.LevelAt("cpu:0", 0, "a", Io::kOutput), Level::kFull);
  capture::Policy policy = Ask(1, 5, {"a"});
  policy.rules[0].level = Level::kSummary;
  filter.Set(Schedule({Ask(0, 0, {"b"}), policy}));
  EXPECT_EQ(filter.LevelAt("cpu:0", 5, "a", Io::kOutput), Level::kSummary);
  EXPECT_EQ(filter.LevelAt("cpu:0", 4, "a", Io::kOutput), Level::kOff);
  EXPECT_EQ(filter.LevelAt("cpu:0", 5, "b", Io::kOutput), Level::kOff);
  EXPECT_EQ(filter.filtered_count(), 0u);
}

TEST(RecordFilterTest, NewPolicyHoldsFromItsTokenForOpsAskedBefore) {
  RecordFilter filter;
  filter.Set(Schedule({Ask(1, 0, {"a"})}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Take(filter, "a", 6), Level::kFull);
    EXPECT_EQ(Take(filter, "b", 6), Level::kOff);
    EXPECT_FALSE(filter.MayRecord(6, "b", Io::kOutput));
  }
  filter.Set(Schedule({Ask(1, 0, {"a"}), Ask(2, 5, {"b"})}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Take(filter, "a", 4), Level::kFull);
    EXPECT_EQ(Take(filter, "b", 4), Level::kOff);
    EXPECT_EQ(Take(filter, "a", 5), Level::kOff);
    EXPECT_EQ(Take(filter, "b", 5), Level::kFull);
    EXPECT_TRUE(filter.MayRecord(5, "b", Io::kOutput));
  }
  EXPECT_EQ(filter.filtered_count(), 9u);
}

TEST(RecordFilterTest, ASelectionIsAnotherWhereverAnAnswerIs) {
  RecordFilter filter;
  const uint64_t everything = filter.SelectionAt(3);
  EXPECT_EQ(filter.SelectionAt(4), everything);
  filter.Set(Schedule({Ask(1, 0, {"a"}), Ask(2, 5, {"b"})}));
  const uint64_t below = filter.SelectionAt(4);
  EXPECT_NE(below, everything);
  EXPECT_EQ(filter.SelectionAt(0), below);
  EXPECT_NE(filter.SelectionAt(5), below);
  EXPECT_EQ(filter.SelectionAt(5), filter.SelectionAt(kTokenMax));
  // Setting the same policy again may change what it selects.
  filter.Set(Schedule({Ask(1, 0, {"a"}), Ask(2, 5, {"b"})}));
  EXPECT_NE(filter.SelectionAt(4), below);
  filter.Set(nullptr);
  EXPECT_EQ(filter.SelectionAt(4), everything);
}

capture::Policy AskFor(std::vector<std::string> requests) {
  capture::Policy policy = Ask(1, 0, {"a"});
  policy.rules[0].tensors.requests = std::move(requests);
  return policy;
}

TEST(RecordFilterTest, ARuleAppliesToTheTokensOfItsRequests) {
  RecordFilter filter;
  filter.Set(Schedule({AskFor({"r1", "r2"})}));
  EXPECT_EQ(Take(filter, "a", 2), Level::kOff);
  const uint64_t base = filter.SelectionAt(3);
  filter.AddRequest(3, "other");
  EXPECT_EQ(filter.SelectionAt(3), base);
  EXPECT_FALSE(filter.MayRecord(3, "a", Io::kUnspecified));
  filter.AddRequest(3, "r1");
  const uint64_t requested = filter.SelectionAt(3);
  EXPECT_NE(requested, base);
  EXPECT_EQ(filter.SelectionAt(4), base);
  filter.AddRequest(3, "r2");  // The rule applies already.
  EXPECT_EQ(filter.SelectionAt(3), requested);
  EXPECT_EQ(Take(filter, "a", 3), Level::kFull);
  EXPECT_TRUE(filter.MayRecord(3, "a", Io::kUnspecified));
  EXPECT_EQ(Take(filter, "b", 3), Level::kOff);
  EXPECT_EQ(Take(filter, "a", 4), Level::kOff);
  EXPECT_EQ(filter.filtered_count(), 3u);
}

TEST(RecordFilterTest, ALaterPolicyKnowsTheRequestsOfATokenThatRuns) {
  RecordFilter filter;
  filter.AddRequest(2, "r1");  // Without a policy.
  filter.AddRequest(2, "r2");
  filter.Set(Schedule({AskFor({"r1"})}));
  EXPECT_EQ(Take(filter, "a", 2), Level::kFull);
  const uint64_t first = filter.SelectionAt(2);
  // The stream connects again, or the policy changes for a later token.
  filter.Set(Schedule({AskFor({"r2"})}));
  EXPECT_EQ(Take(filter, "a", 2), Level::kFull);
  EXPECT_NE(filter.SelectionAt(2), first);
  filter.Set(Schedule({AskFor({"r3"})}));
  EXPECT_EQ(Take(filter, "a", 2), Level::kOff);
  filter.Set(Schedule({AskFor({"r1"})}));
  EXPECT_EQ(Take(filter, "a", 2), Level::kFull);
}

TEST(RecordFilterTest, RequestsOfTheLastTokensAreKept) {
  constexpr auto kHalf = RecordFilter::kRequestsMax / 2;
  RecordFilter filter;
  for (const int64_t token : {1, 2, 3}) {
    for (size_t i = 0; i < kHalf; ++i) {
      filter.AddRequest(token, std::to_string(i));
    }
  }
  filter.Set(Schedule({AskFor({"7"})}));
  EXPECT_EQ(Take(filter, "a", 1), Level::kOff);
  EXPECT_EQ(Take(filter, "a", 2), Level::kFull);
  EXPECT_EQ(Take(filter, "a", 3), Level::kFull);
}

TEST(RecordFilterTest, TheHighestTokensOfRequestsAreKnown) {
  RecordFilter filter;
  filter.Set(Schedule({AskFor({"r"})}));
  constexpr auto kCount = static_cast<int64_t>(RecordFilter::kRequestTokensMax);
  for (int64_t token = 0; token <= kCount; ++token) {
    filter.AddRequest(token, "r");
  }
  filter.AddRequest(0, "r");
  EXPECT_EQ(Take(filter, "a", 0), Level::kOff);
  for (int64_t token = 1; token <= kCount; ++token) {
    EXPECT_EQ(Take(filter, "a", token), Level::kFull) << token;
  }
}

TEST(RecordFilterTest, ManyThreadsSeeTheTokensOfRequests) {
  constexpr auto kTokens =
      static_cast<int64_t>(RecordFilter::kRequestTokensMax);
  for (int round = 0; round < 50; ++round) {
    RecordFilter filter;
    filter.Set(Schedule({AskFor({"r"})}));
    std::atomic<uint64_t> off_count{0};
    std::vector<std::thread> threads;
    for (int64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&filter, &off_count, first] {
        for (int64_t token = first; token < kTokens; token += 4) {
          const bool is_wanted = token % 8 < 4;
          if (is_wanted) filter.AddRequest(token, "r");
          const Level level = Take(filter, "a", token);
          EXPECT_EQ(level, is_wanted ? Level::kFull : Level::kOff) << token;
          if (level == Level::kOff) off_count.fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(filter.filtered_count(), off_count.load());
  }
}

TEST(RecordFilterTest, AfterStopNothingIsFiltered) {
  RecordFilter filter;
  filter.Set(Schedule({Ask(1, 0, {"b"})}));
  EXPECT_EQ(Take(filter, "a"), Level::kOff);
  filter.Stop();
  filter.Set(Schedule({Ask(2, 0, {"b"})}));
  EXPECT_EQ(Take(filter, "a"), Level::kFull);
  EXPECT_EQ(filter.filtered_count(), 1u);
}

TEST(RecordFilterTest, AfterStopNoMoreIsWorthACopyThanBefore) {
  RecordFilter filter;
  filter.Set(Schedule({Ask(1, 0, {"b"})}));
  filter.Stop();
  EXPECT_FALSE(filter.MayRecord(0, "a", Io::kOutput));
  EXPECT_TRUE(filter.MayRecord(0, "b", Io::kOutput));
}

TEST(RecordFilterTest, TellsOnceOfTheNextRecordThatIsOff) {
  RecordFilter filter;
  filter.Set(Schedule({Ask(1, 0, {"b"})}));
  EXPECT_EQ(Take(filter, "a"), Level::kOff);
  EXPECT_FALSE(filter.TakeWatch());
  filter.Watch();
  EXPECT_EQ(Take(filter, "a"), Level::kOff);
  EXPECT_TRUE(filter.TakeWatch());
  EXPECT_EQ(Take(filter, "a"), Level::kOff);
  EXPECT_FALSE(filter.TakeWatch());
}

TEST(RecordFilterTest, ManyThreadsSeeOnlyPoliciesInForceAndAreCountedExactly) {
  RecordFilter filter;
  filter.Set(Schedule({Ask(1, 0, {"even*", "always"})}));
  std::atomic<uint64_t> off_count{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      uint64_t own_count = 0;
      for (int n = 0; !is_over.load() || n < 1000; ++n) {
        const std::string name = std::to_string((n + i) % 7);
        const bool even = Take(filter, "even" + name) == Level::kOff;
        const bool odd = Take(filter, "odd" + name) == Level::kOff;
        own_count += (even ? 1 : 0) + (odd ? 1 : 0);
        // No policy enables `never`, and none disables `always`.
        EXPECT_EQ(Take(filter, "never"), Level::kOff);
        ++own_count;
        EXPECT_EQ(Take(filter, "always"), Level::kFull);
      }
      off_count.fetch_add(own_count);
    });
  }
  for (uint64_t revision = 2; revision < 100; ++revision) {
    const char* op = revision % 2 == 0 ? "odd*" : "even*";
    filter.Set(Schedule({Ask(revision, 0, {op, "always"})}));
    std::this_thread::yield();
  }
  is_over.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(filter.filtered_count(), off_count.load());
}

TEST(RecordFilterTest, StopReturnsWhenAllThatWasFilteredIsCounted) {
  for (int round = 0; round < 20; ++round) {
    RecordFilter filter;
    filter.Set(Schedule({Ask(1, 0, {"b"})}));
    std::atomic<uint64_t> off_count{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (Take(filter, "a") == Level::kOff) off_count.fetch_add(1);
      });
    }
    while (off_count.load() == 0) std::this_thread::yield();
    filter.Stop();
    const uint64_t counted = filter.filtered_count();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counted, off_count.load());
  }
}

TEST(OpRulesCacheTest, MoreOpsThanItHoldsAreRightOrNotThere) {
  const capture::Schedule schedule({Ask(1, 0, {"*7"}), Ask(2, 9, {"1*"})}, 0);
  OpRulesCache cache(schedule);
  size_t missing_count = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < OpRulesCache::kOpsMax * 3 / 2; ++i) {
      const std::string op = std::to_string(i);
      const capture::RuleBits* rules = cache.Find(op);
      if (rules == nullptr) {
        ++missing_count;
      } else {
        ASSERT_EQ(*rules, schedule.RulesOf(op)) << op;
      }
    }
  }
  EXPECT_GT(missing_count, OpRulesCache::kOpsMax);
}

TEST(OpRulesCacheTest, OpThatIsNoneIsNotKept) {
  const capture::Schedule schedule({Ask(1, 0, {"*"})}, 0);
  OpRulesCache cache(schedule);
  EXPECT_NE(cache.Find(std::string(kOpBytesMax, 'o')), nullptr);
  EXPECT_EQ(cache.Find(std::string(kOpBytesMax + 1, 'o')), nullptr);
}

TEST(OpRulesCacheTest, OpThatIsFoundStaysWhereItIs) {
  const capture::Schedule schedule({Ask(1, 0, {"a"})}, 0);
  OpRulesCache cache(schedule);
  const capture::RuleBits* rules = cache.Find("a");
  ASSERT_NE(rules, nullptr);
  EXPECT_NE(cache.Find("b"), rules);
  EXPECT_EQ(cache.Find("a"), rules);
}

}  // namespace
}  // namespace msitd::libmsit
