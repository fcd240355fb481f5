// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/named_runs.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GroupMatcherTest : public ::testing::Test {
 protected:
  // Returns all pairs as `rank/token: golden = target`, in order.
  std::vector<std::string> Pairs(Selector selector = {}) {
    auto matcher = GroupMatcher::Create(**runs_.Open("g"), **runs_.Open("t"),
                                        std::move(selector),
                                        *MatchRules::Create(matching_));
    EXPECT_TRUE(matcher.ok()) << matcher.status();
    std::vector<std::string> out;
    GroupCursor keys(matcher->groups());
    while (const auto key = keys.Next()) {
      const auto group = matcher->Load(*key, [] { return absl::OkStatus(); });
      EXPECT_TRUE(group.ok()) << group.status();
      for (const TensorPair& pair : group->pairs) {
        out.push_back(fmt::format("{}/{}: {} = {}", group->rank, group->token,
                                  Text(pair.golden), Text(pair.target)));
      }
    }
    return out;
  }

  static std::string Text(const storage::TensorInfo* tensor) {
    if (tensor == nullptr) return "-";
    return fmt::format("{}.{}.{}.{}@{}", tensor->key.op, tensor->key.call,
                       IoName(tensor->key.io), tensor->key.index,
                       tensor->key.device);
  }

  static RecordedTensor At(std::string op, int32_t rank = 0, int64_t token = 0,
                           int64_t sequence = -1, std::string device = "d") {
    RecordedTensor out = Floats(op, {1});
    out.rank = rank;
    out.token = token;
    out.sequence = sequence;
    out.device = std::move(device);
    return out;
  }

  v1::Matching matching_;
  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  testing::NamedRuns runs_{store_};
};

TEST_F(GroupMatcherTest, EveryPartOfTheNameCounts) {
  RecordedTensor tensor = At("op");
  golden_.Record(tensor);
  target_.Record(tensor);
  tensor.call = 1;
  golden_.Record(tensor);
  tensor.io = Io::kInput;
  target_.Record(tensor);
  tensor.index = "1";
  golden_.Record(tensor);
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: op.0.output.0@d = op.0.output.0@d",
                          "0/0: op.1.output.0@d = -", "0/0: op.1.input.1@d = -",
                          "0/0: - = op.1.input.0@d"));
}

TEST_F(GroupMatcherTest, RowsComeByTokenThenRankThenGoldenExecutionOrder) {
  for (const int32_t rank : {1, 0}) {
    for (const int64_t token : {1, 0}) {
      golden_.Record(At("second", rank, token, 20));
      golden_.Record(At("first", rank, token, 10));
      target_.Record(At("second", rank, token, 1));
      target_.Record(At("first", rank, token, 2));
      target_.Record(At("extra2", rank, token, 4));
      target_.Record(At("extra1", rank, token, 3));
    }
  }
  std::vector<std::string> expected;
  for (const std::string_view place : {"0/0", "1/0", "0/1", "1/1"}) {
    for (const std::string_view pair :
         {"first.0.output.0@d = first.0.output.0@d",
          "second.0.output.0@d = second.0.output.0@d",
          "- = extra1.0.output.0@d", "- = extra2.0.output.0@d"}) {
      expected.push_back(fmt::format("{}: {}", place, pair));
    }
  }
  EXPECT_EQ(Pairs(), expected);
}

TEST_F(GroupMatcherTest, TensorsOfOneSequenceAreOrderedByIoAndIndex) {
  for (const auto& [io, index] :
       {std::pair(Io::kOutput, "0"), {Io::kInput, "1"}, {Io::kInput, "0"}}) {
    RecordedTensor tensor = At("op", 0, 0, 7);
    tensor.io = io;
    tensor.index = index;
    golden_.Record(tensor);
  }
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: op.0.input.0@d = -", "0/0: op.0.input.1@d = -",
                          "0/0: op.0.output.0@d = -"));
}

TEST_F(GroupMatcherTest, RankAndTokenThatOneRunLacksAreUnmatched) {
  golden_.Record(At("a", 0, 0));
  golden_.Record(At("a", 1, 0));
  target_.Record(At("a", 0, 0));
  target_.Record(At("a", 0, 5));
  EXPECT_THAT(Pairs(), ElementsAre("0/0: a.0.output.0@d = a.0.output.0@d",
                                   "1/0: a.0.output.0@d = -",
                                   "0/5: - = a.0.output.0@d"));
}

TEST_F(GroupMatcherTest, SingleDevicesMatchWhateverTheirNames) {
  golden_.Record(At("a", 0, 0, -1, "cpu:0"));
  target_.Record(At("a", 0, 0, -1, "npu:3"));
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: a.0.output.0@cpu:0 = a.0.output.0@npu:3"));
}

TEST_F(GroupMatcherTest, SeveralDevicesMustAgree) {
  golden_.Record(At("a", 0, 0, -1, "npu:0"));
  golden_.Record(At("a", 0, 0, -1, "npu:1"));
  target_.Record(At("a", 0, 0, -1, "npu:1"));
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: a.0.output.0@npu:0 = -",
                          "0/0: a.0.output.0@npu:1 = a.0.output.0@npu:1"));
}

TEST_F(GroupMatcherTest, DevicesCountThoughNamesComeInTheSameOrder) {
  golden_.Record(At("a", 0, 0, 1, "npu:0"));
  golden_.Record(At("a", 0, 0, 2, "npu:1"));
  target_.Record(At("a", 0, 0, 1, "npu:1"));
  target_.Record(At("a", 0, 0, 2, "npu:0"));
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: a.0.output.0@npu:0 = a.0.output.0@npu:0",
                          "0/0: a.0.output.0@npu:1 = a.0.output.0@npu:1"));
}

TEST_F(GroupMatcherTest, EveryPartOfTheNameCountsInEqualPlaces) {
  for (int differing = 0; differing < 4; ++differing) {
    const int64_t token = differing;
    RecordedTensor tensor = At("op", 0, token);
    golden_.Record(tensor);
    if (differing == 0) tensor.op = "other";
    if (differing == 1) tensor.call = 1;
    if (differing == 2) tensor.io = Io::kInput;
    if (differing == 3) tensor.index = "1";
    target_.Record(tensor);
  }
  EXPECT_THAT(
      Pairs(),
      ElementsAre("0/0: op.0.output.0@d = -", "0/0: - = other.0.output.0@d",
                  "0/1: op.0.output.0@d = -", "0/1: - = op.1.output.0@d",
                  "0/2: op.0.output.0@d = -", "0/2: - = op.0.input.0@d",
                  "0/3: op.0.output.0@d = -", "0/3: - = op.0.output.1@d"));
}

TEST_F(GroupMatcherTest, DevicesAreCountedForEachRankOverAllTokens) {
  // There is one device at each token, but two in total, so the names must
  // agree.
  golden_.Record(At("a", 0, 0, -1, "npu:0"));
  golden_.Record(At("a", 0, 1, -1, "npu:1"));
  target_.Record(At("a", 0, 0, -1, "npu:1"));
  // The other rank has one device on each side.
  golden_.Record(At("a", 1, 0, -1, "npu:0"));
  target_.Record(At("a", 1, 0, -1, "cpu:0"));
  EXPECT_THAT(
      Pairs(),
      ElementsAre("0/0: a.0.output.0@npu:0 = -", "0/0: - = a.0.output.0@npu:1",
                  "1/0: a.0.output.0@npu:0 = a.0.output.0@cpu:0",
                  "0/1: a.0.output.0@npu:1 = -"));
}

TEST_F(GroupMatcherTest, SelectorNarrowsBothSides) {
  for (RunRecorder* run : {&golden_, &target_}) {
    for (const int64_t token : {0, 1, 2}) {
      run->Record(At("keep", 0, token));
      run->Record(At("drop", 0, token));
      run->Record(At("keep", 1, token));
    }
  }
  Selector selector;
  selector.ranks = {0};
  selector.tokens = {{1, 1}};
  selector.op_patterns = {"k*"};
  EXPECT_THAT(Pairs(selector),
              ElementsAre("0/1: keep.0.output.0@d = keep.0.output.0@d"));
  selector.tokens = {{7, 9}};
  EXPECT_THAT(Pairs(selector), IsEmpty());
}

TEST_F(GroupMatcherTest, RunThatIsGoneIsAnError) {
  storage::RunReader& target = **runs_.Open("t");
  ASSERT_TRUE(store_.DeleteRun("t").ok());
  const auto matcher = GroupMatcher::Create(**runs_.Open("g"), target, {}, {});
  EXPECT_EQ(Reason(matcher.status()), "RUN_NOT_FOUND");
}

TEST_F(GroupMatcherTest, TargetNamesAreRewrittenOneRuleAfterTheOther) {
  v1::Matching::Rewrite* rewrite = matching_.add_rewrites();
  rewrite->set_regex("^model\\.");
  rewrite = matching_.add_rewrites();
  rewrite->set_regex("layer_([0-9]+)");
  rewrite->set_replacement("layers.\\1");
  golden_.Record(At("layers.3.mlp"));
  target_.Record(At("model.layer_3.mlp"));
  target_.Record(At("other"));
  EXPECT_THAT(Pairs(), ElementsAre("0/0: layers.3.mlp.0.output.0@d = "
                                   "model.layer_3.mlp.0.output.0@d",
                                   "0/0: - = other.0.output.0@d"));
  // Patterns apply to golden names.
  Selector selector;
  selector.op_patterns = {"layers.*"};
  EXPECT_EQ(Pairs(selector).size(), 1u);
}

TEST_F(GroupMatcherTest, CaseIsIgnoredWhereAsked) {
  golden_.Record(At("Layer"));
  target_.Record(At("layer"));
  EXPECT_EQ(Pairs().size(), 2u);
  matching_.set_ignore_case(true);
  EXPECT_EQ(Pairs().size(), 1u);
}

TEST_F(GroupMatcherTest, MappedOpsMatchNothingElse) {
  v1::Matching::OpPair* pair = matching_.add_ops();
  pair->set_golden_op("a");
  pair->set_target_op("b");
  for (const char* op : {"a", "b"}) {
    golden_.Record(At(op));
    target_.Record(At(op));
  }
  EXPECT_THAT(Pairs(), ElementsAre("0/0: a.0.output.0@d = b.0.output.0@d",
                                   "0/0: b.0.output.0@d = -",
                                   "0/0: - = a.0.output.0@d"));
}

TEST_F(GroupMatcherTest, TokensAreShiftedAndRanksMapped) {
  matching_.set_token_offset(1);
  v1::Matching::RankPair* ranks = matching_.add_ranks();
  ranks->set_golden_rank(0);
  ranks->set_target_rank(2);
  golden_.Record(At("x", 0, 0));
  golden_.Record(At("x", 1, 0));
  target_.Record(At("x", 2, 1));
  target_.Record(At("x", 2, 0));
  target_.Record(At("x", 0, 1));
  EXPECT_THAT(Pairs(), ElementsAre("0/-1: - = x.0.output.0@d",
                                   "0/0: x.0.output.0@d = x.0.output.0@d"));
  Selector selector;
  selector.tokens = {{0, 0}};
  selector.ranks = {0};
  EXPECT_EQ(Pairs(selector).size(), 1u);
}

TEST_F(GroupMatcherTest, FuzzyPairsWhatIsLeftOverInOrder) {
  matching_.set_fuzzy(true);
  RecordedTensor golden = At("layer/conv");
  RecordedTensor target = At("module.Layer.conv");
  golden_.Record(golden);
  target_.Record(target);
  golden = At("relu");
  golden.call = 3;
  golden_.Record(golden);
  target = At("relu");
  target.call = 5;
  target_.Record(target);
  // A tensor of another shape is not the same tensor.
  RecordedTensor wide = Floats("relu", {1, 2});
  wide.call = 4;
  wide.device = "d";
  target_.Record(wide);
  EXPECT_THAT(Pairs(), ElementsAre("0/0: layer/conv.0.output.0@d = "
                                   "module.Layer.conv.0.output.0@d",
                                   "0/0: relu.3.output.0@d = relu.5.output.0@d",
                                   "0/0: - = relu.4.output.0@d"));
}

// Compares the result with an implementation that considers every pair.
TEST_F(GroupMatcherTest, FuzzyPairsAsLookingAtEveryPairWould) {
  matching_.set_fuzzy(true);
  std::mt19937 random(11);
  struct Side {
    std::vector<RecordedTensor> tensors;
    std::vector<bool> used;
  };
  Side golden;
  Side target;
  constexpr const char* kOps[] = {"a.b", "module.a.b", "A.B", "c", "root.c"};
  for (const bool is_golden : {true, false}) {
    for (int i = 0; i < 60; ++i) {
      RecordedTensor tensor = At(kOps[random() % 5]);
      tensor.call = i + (is_golden ? 0 : 30);
      if (random() % 4 == 0) tensor.io = Io::kInput;
      (is_golden ? golden_ : target_).Record(tensor);
      (is_golden ? golden : target).tensors.push_back(tensor);
    }
  }
  golden.used.resize(60);
  target.used.resize(60);
  std::vector<std::pair<int, int>> expected;
  for (int level = 0; level < 3; ++level) {
    for (int g = 0; g < 60; ++g) {
      for (int t = 0; t < 60 && !golden.used[g]; ++t) {
        const RecordedTensor& a = golden.tensors[g];
        const RecordedTensor& b = target.tensors[t];
        const bool same_op = level == 2 ? MatchRules::LooseName(a.op) ==
                                              MatchRules::LooseName(b.op)
                                        : a.op == b.op;
        if (target.used[t] || !same_op || a.io != b.io) continue;
        if (level == 0 && a.call != b.call) continue;
        golden.used[g] = target.used[t] = true;
        expected.emplace_back(a.call, b.call);
      }
    }
  }
  std::sort(expected.begin(), expected.end());
  auto matcher = GroupMatcher::Create(**runs_.Open("g"), **runs_.Open("t"), {},
                                      *MatchRules::Create(matching_));
  ASSERT_TRUE(matcher.ok());
  const auto group = matcher->Load({0, 0}, [] { return absl::OkStatus(); });
  ASSERT_TRUE(group.ok());
  std::vector<std::pair<int, int>> pairs;
  for (const TensorPair& pair : group->pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) continue;
    pairs.emplace_back(pair.golden->key.call, pair.target->key.call);
  }
  std::sort(pairs.begin(), pairs.end());
  EXPECT_GT(pairs.size(), 30u);
  EXPECT_EQ(pairs, expected);
}

// The calls of `to` in a token: `golden=target`, of those with both.
std::vector<std::string> CallsOf(const TensorGroup& group) {
  std::vector<std::string> out;
  for (const TensorPair& pair : group.pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) continue;
    if (pair.golden->key.op != "to") continue;
    out.push_back(fmt::format("{}={}{}", pair.golden->key.call,
                              pair.target->key.call,
                              pair.reason.empty() ? "" : ": "));
    out.back() += pair.reason;
  }
  return out;
}

TEST_F(GroupMatcherTest, CallsArePairedByTheirPlaceIfOneRunHasMore) {
  RunRecorder unordered(store_, "u", {{"order", "unknown"}});
  const auto record = [](RunRecorder& run,
                         const std::vector<std::string>& ops) {
    int32_t call = 0;
    for (const std::string& op : ops) {
      RecordedTensor tensor = At(op);
      if (op == "to") tensor.call = call++;
      run.Record(tensor);
    }
  };
  record(golden_, {"to", "a", "to", "b"});
  record(target_, {"a", "to", "b"});
  record(unordered, {"a", "to", "b"});
  const auto calls_of = [this](const std::string& golden,
                               const std::string& target, bool by_number) {
    auto matcher = GroupMatcher::Create(**runs_.Open(golden),
                                        **runs_.Open(target), {}, {});
    EXPECT_TRUE(matcher.ok());
    if (by_number) matcher->KeepPairsOf(matcher->groups());
    auto group = matcher->Load({0, 0}, [] { return absl::OkStatus(); });
    EXPECT_TRUE(group.ok());
    return CallsOf(*group);
  };
  EXPECT_THAT(calls_of("g", "t", false),
              ElementsAre("1=0: the same place in the order of execution"));
  EXPECT_THAT(calls_of("t", "g", false),
              ElementsAre("0=1: the same place in the order of execution"));
  EXPECT_THAT(calls_of("g", "t", true), ElementsAre("0=0"));
  EXPECT_THAT(calls_of("g", "u", false), ElementsAre("0=0"));
  EXPECT_THAT(calls_of("u", "g", false), ElementsAre("0=0"));
}

TEST(MatchingTest, WhatIsWrongIsNamedByItsPlace) {
  const auto error = [](const v1::Matching& spec) {
    return std::string(Message(MatchRules::Create(spec).status()));
  };
  v1::Matching spec;
  for (const char* target : {"x", "y", "x"}) {
    spec.add_ops()->set_golden_op(std::string("g") + target +
                                  std::to_string(spec.ops_size()));
    spec.mutable_ops(spec.ops_size() - 1)->set_target_op(target);
  }
  EXPECT_EQ(error(spec), "matching.ops[2].target_op: \"x\" is there twice");
  spec.Clear();
  spec.add_rewrites()->set_regex("(");
  EXPECT_THAT(error(spec), ::testing::HasSubstr("matching.rewrites[0].regex"));
  spec.mutable_rewrites(0)->set_regex("a");
  spec.mutable_rewrites(0)->set_replacement("\\1");
  EXPECT_THAT(error(spec), ::testing::HasSubstr("rewrites[0].replacement"));
  spec.Clear();
  spec.add_ranks()->set_golden_rank(1);
  spec.add_ranks()->set_golden_rank(1);
  EXPECT_THAT(error(spec), ::testing::HasSubstr("ranks[1].golden_rank"));
}

}  // namespace
}  // namespace msitd::compare
