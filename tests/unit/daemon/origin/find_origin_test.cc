// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/find_origin.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/origin/chain.h"
#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FindOriginTest : public ::testing::Test {
 protected:
  FakeStore store_;
};

TEST_F(FindOriginTest, NamesTheCallWhoseInputsAreClean) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Call("root.0", {1}, {2})
      .Call("root.1", {2}, {kNan})
      .Call("root.2", {kNan}, {kNan})
      .Out("root", {kNan});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "op root.1");
  std::vector<std::string> chain;
  for (const TensorKey& key : answer.origins[0].chain) chain.push_back(key.op);
  EXPECT_THAT(chain, ElementsAre("root.1", "root.2", "root"));
  EXPECT_EQ(answer.symptom_count, 4u);
  EXPECT_EQ(answer.tensor_count, 8u);
}

TEST_F(FindOriginTest, FindsNothingInAHealthyRun) {
  CreateRun(store_);
  RecordedProgram(store_).Call("root", {1}, {2});
  EXPECT_EQ(Describe(Search(store_)), "none");
}

TEST_F(FindOriginTest, NamesTheCodeBetweenTwoCalls) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Call("root.a", {1}, {2})
      .Call("root.b", {kNan}, {kNan})
      .Out("root", {kNan});
  EXPECT_EQ(Describe(Search(store_)), "code root after root.a before root.b");
}

TEST_F(FindOriginTest, NamesTheInputOfTheModelAndAWeight) {
  CreateRun(store_);
  RecordedProgram(store_).Call("root", {kNan}, {kNan});
  EXPECT_EQ(Describe(Search(store_)), "input root");
  FakeStore other;
  CreateRun(other);
  RecordedProgram(other)
      .Add(Io::kWeight, "root", {1, kInf}, "weight")
      .Call("root", {1}, {kNan});
  EXPECT_EQ(Describe(Search(other)), "weight root");
}

TEST_F(FindOriginTest, IsNotKnownWithoutInputs) {
  CreateRun(store_);
  RecordedProgram(store_).Out("root.0", {1}).Out("root.1", {kNan});
  EXPECT_EQ(Describe(Search(store_)),
            "not known: the inputs of root.1 were not recorded");
}

TEST_F(FindOriginTest, IsNotKnownIfRecordsInTheCallWereLost) {
  for (const uint64_t dropped : {0, 1}) {
    FakeStore store;
    CreateRun(store);
    ReportLost(store, 0, dropped);
    RecordedProgram(store).In("root", {1}).Skip(1).Out("root", {kNan});
    EXPECT_THAT(Describe(Search(store)),
                HasSubstr(dropped == 0 ? "op root" : "were lost"));
  }
}

TEST_F(FindOriginTest, IsNotKnownIfSeveralClientsRecordedTheRank) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Out("root", {kNan})
      .Skip(static_cast<uint64_t>(-1))
      .In("other", {1});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("several clients"));
}

TEST_F(FindOriginTest, IsNotKnownIfTheTokenBeforeWasNotRecorded) {
  CreateRun(store_);
  RecordedProgram(store_).Token(2).Call("root", {1}, {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("token 1 was not recorded"));
  FakeStore functions;
  CreateRun(functions);
  RecordedProgram(functions).Token(2).Call("Torch.log", {1}, {kNan});
  EXPECT_EQ(Describe(Search(functions)), "op Torch.log token 2");
}

TEST_F(FindOriginTest, SearchesTheFirstTokenOnly) {
  CreateRun(store_);
  RecordedProgram(store_)
      .Token(0)
      .Call("Torch.exp", {1}, {2})
      .Token(1)
      .Call("Torch.log", {1}, {kNan})
      .Token(2)
      .Call("Torch.exp", {1}, {kNan});
  EXPECT_EQ(Describe(Search(store_)), "op Torch.log token 1");
}

TEST_F(FindOriginTest, IsNotKnownIfAnInputHasNoSummary) {
  CreateRun(store_);
  RecordedProgram(store_)
      .AddStatistics("root", R"({"max": 1.5})")
      .Out("root.a", {1});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(answer.result, OriginAnswer::Result::kNone);
  EXPECT_EQ(answer.unknown_count, 1u);
}

TEST_F(FindOriginTest, ReportsWhatItCouldNotJudge) {
  CreateRun(store_);
  ReportLost(store_, 0, 7);
  RecordedProgram(store_).Call("root", {1}, {2});
  EXPECT_EQ(Search(store_).lost_count, 7u);
}

// Clients report 1000 records; see ReportLost.
TEST_F(FindOriginTest, RecordsThatNeverArrivedAreLost) {
  CreateRun(store_);
  RecordedProgram(store_).Call("Torch.log", {1}, {2});
  EXPECT_EQ(Search(store_).lost_count, 0u);
  RunActivity state;
  const compare::ActivitySource activity = [&state](std::string_view) {
    return state;
  };
  const OriginAnswer answer = Search(store_, /*is_strict=*/false, &activity);
  EXPECT_EQ(answer.result, OriginAnswer::Result::kNone);
  EXPECT_EQ(answer.lost_count, 1000 - answer.tensor_count);
  // They may be in transit.
  state.ranks = {{.rank = 0, .state = RankActivity::State::kOpen}};
  EXPECT_EQ(Search(store_, /*is_strict=*/false, &activity).lost_count, 0u);
}

// Records an op with parameters that is clean at token 0 and bad at token 1.
void RecordLinear(FakeStore& store, bool is_training) {
  RecordedProgram(store)
      .AddDocument("module_tree.json",
                   fmt::format(R"({{"modules":[{{"op":"root","training":{},)"
                               R"("class":"torch.nn.modules.linear.Linear",)"
                               R"("parameters":{{"weight":{{}}}}}}]}})",
                               is_training))
      .Call("root", {1}, {2})
      .Token(1)
      .Call("root", {1}, {kNan})
      .RequiresGrad();
}

TEST_F(FindOriginTest, IsNotKnownIfAnOptimizerMayHaveChangedTheWeights) {
  CreateRun(store_);
  RecordLinear(store_, /*is_training=*/true);
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("or the optimizer"));
  FakeStore inference;
  CreateRun(inference);
  RecordLinear(inference, /*is_training=*/false);
  EXPECT_EQ(Describe(Search(inference)), "op root token 1");
}

TEST_F(FindOriginTest, IsNotKnownIfAnArgumentWasInAnObject) {
  CreateRun(store_);
  RecordedProgram(store_)
      .AddDocument("not_recorded/1.json",
                   R"({"skipped":[{"reason":"an object","count":1,)"
                   R"("op":"root.a","index":"1"}]})")
      .In("root", {1})
      .Call("root.a", {1}, {kNan})
      .Out("root", {kNan});
  EXPECT_EQ(Describe(Search(store_)),
            "not known: not everything of root.a was recorded: argument 1: an "
            "object");
}

TEST_F(FindOriginTest, AReasonAboutACallSaysNothingAboutItsClass) {
  CreateRun(store_);
  RecordedProgram(store_)
      .AddDocument("module_tree.json",
                   R"({"modules":[{"op":"root.a","class":"C"},)"
                   R"({"op":"root.b","class":"C"}]})")
      .AddDocument("not_recorded/1.json",
                   R"({"skipped":[{"reason":"a call","count":9,)"
                   R"("op":"root.b"}]})")
      .In("root", {1})
      .Call("root.a", {1}, {kNan})
      .Out("root", {kNan});
  EXPECT_EQ(Describe(Search(store_)), "op root.a");
}

TEST_F(FindOriginTest, IgnoresMasksUnlessStrict) {
  CreateRun(store_);
  RecordedProgram(store_)
      .Call("Tensor.masked_fill", {1, 2}, {1, -kInf})
      .Call("Torch.softmax", {1, -kInf}, {1, 0});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "none");
  EXPECT_EQ(answer.ignored[static_cast<size_t>(IgnoreRule::kMaskOp)].count, 1u);
  EXPECT_EQ(answer.ignored[static_cast<size_t>(IgnoreRule::kMaskInput)].count,
            1u);
  EXPECT_EQ(Describe(Search(store_, /*is_strict=*/true)),
            "op Tensor.masked_fill");
}

TEST_F(FindOriginTest, NamesTheSoftmaxOfARowThatIsFullyMasked) {
  CreateRun(store_);
  RecordedProgram(store_)
      .Call("Tensor.masked_fill", {1, 2}, {-kInf, -kInf})
      .Call("Torch.softmax", {-kInf, -kInf}, {kNan, kNan});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "op Torch.softmax");
  EXPECT_THAT(answer.origins[0].origin.notes,
              ElementsAre("rows that are fully masked: 1"));
}

// A record with the numbers that were passed says the same as one without.
TEST_F(FindOriginTest, NamesTheSoftmaxOfARowThatANumberMasks) {
  for (const bool has_numbers : {false, true}) {
    for (const char* op : {"Tensor.masked_fill", "Torch.where", "Torch.full",
                           "Aten.new_full", "Tensor.__setitem__"}) {
      FakeStore store;
      CreateRun(store);
      {
        RecordedProgram program(store);
        program.In("root", {1, 2}).In(op, {1, 2});
        if (has_numbers) program.AddNumber(Io::kInput, op, -kInf, "2");
        program.Out(op, {-kInf, -kInf})
            .Call("Tensor.view", {-kInf, -kInf}, {-kInf, -kInf})
            .Call("Torch.softmax", {-kInf, -kInf}, {kNan, kNan})
            .Out("root", {kNan, kNan});
      }
      const OriginAnswer answer = Search(store);
      EXPECT_EQ(Describe(answer), "op Torch.softmax") << op << has_numbers;
      EXPECT_EQ(answer.ignored[static_cast<size_t>(IgnoreRule::kMaskOp)].count,
                1u);
    }
  }
}

TEST_F(FindOriginTest, NamesAFunctionThatReceivedAConstant) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("Tensor.__mul__", {0, 1})
      .AddNumber(Io::kInput, "Tensor.__mul__", -kInf, "1")
      .Out("Tensor.__mul__", {kNan, -kInf});
  EXPECT_EQ(Describe(Search(store_)), "op Tensor.__mul__");
}

TEST_F(FindOriginTest, NamesTheSoftmaxOfScoresThatAConstantIsAddedTo) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("Tensor.__add__", {0, 1})
      .AddNumber(Io::kInput, "Tensor.__add__", -kInf, "1")
      .Out("Tensor.__add__", {-kInf, -kInf})
      .Call("Torch.softmax", {-kInf, -kInf}, {kNan, kNan});
  EXPECT_EQ(Describe(Search(store_)), "op Torch.softmax");
}

TEST_F(FindOriginTest, IsNotKnownIfANumberMayFollowFromAnOverflow) {
  // Code of `root.0` may have overflowed, and its minimum be the number. The
  // class of the module decides whether its result is judged.
  const char* const trees[] = {
      "", R"({"modules":[{"op":"root.0","class":"mine.Scores"}]})"};
  for (const std::string tree : trees) {
    FakeStore store;
    CreateRun(store);
    {
      RecordedProgram program(store);
      if (!tree.empty()) program.AddDocument("module_tree.json", tree);
      program.In("root", {1, 1})
          .Call("root.0", {1, 1}, {2, -kInf})
          .In("Tensor.__mul__", {0, 1})
          .AddNumber(Io::kInput, "Tensor.__mul__", -kInf, "1")
          .Out("Tensor.__mul__", {kNan, -kInf})
          .Out("root", {kNan, -kInf});
    }
    EXPECT_EQ(Describe(Search(store)),
              "not known: Tensor.__mul__ input/1 has -inf, which may be a mask "
              "or the origin itself");
  }
}

TEST_F(FindOriginTest, IsNotKnownIfAModuleReceivedANumber) {
  CreateRun(store_);
  // Code that is not recorded may have overflowed.
  RecordedProgram(store_)
      .In("root", {1, 1})
      .In("root.0", {1, 1})
      .AddNumber(Io::kInput, "root.0", -kInf, "1")
      .Out("root.0", {kNan, kNan})
      .Out("root", {kNan, kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("a mask or the origin"));
}

TEST_F(FindOriginTest, ANumberThatWasReturnedAbsorbsNoInput) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {kNan, 1})
      .AddNumber(Io::kOutput, "root", 0.5);
  EXPECT_EQ(Describe(Search(store_)), "input root");
}

TEST_F(FindOriginTest, IgnoresAnInputWithoutEffect) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Add(Io::kInput, "root", {kNan, 1}, "1")
      .Call("root.a", {1}, {2})
      .Out("root", {2});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "none");
  EXPECT_EQ(answer.ignored[static_cast<size_t>(IgnoreRule::kAbsorbed)].count,
            1u);
  EXPECT_EQ(Describe(Search(store_, /*is_strict=*/true)), "input root");
}

TEST_F(FindOriginTest, DoesNotIgnoreAnInputThatReachesAPart) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {kNan})
      .Call("root.a", {kNan}, {kNan})
      .Out("root", {1});
  EXPECT_EQ(Describe(Search(store_)), "input root");
}

TEST_F(FindOriginTest, IsNotKnownIfAnIgnoredResultMayBeAnOverflow) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Call("root.0", {1}, {-kInf})
      .Call("root.1", {-kInf}, {kNan})
      .Out("root", {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("a mask or the origin"));
}

TEST_F(FindOriginTest, IsNotKnownIfTheCodeBeforeMayHaveOverflowed) {
  // -inf that no recorded op returned.
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {1})
      .Call("root.0", {1}, {2})
      .Call("root.1", {-kInf}, {kNan})
      .Out("root", {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("a mask or the origin"));
  // Passed on between the overflow and the op that makes NaN from it.
  for (const char* last : {"Torch.layer_norm", "Torch.softmax"}) {
    FakeStore store;
    CreateRun(store);
    RecordedProgram(store)
        .In("root", {1, 1})
        .Call("root.0", {1, 1}, {2, -kInf})
        .Call("Torch.add", {2, -kInf}, {3, -kInf})
        .Call(last, {3, -kInf}, {kNan, kNan})
        .Out("root", {kNan, kNan});
    EXPECT_THAT(Describe(Search(store)), HasSubstr("a mask or the origin"));
  }
}

TEST_F(FindOriginTest, NamesAnOpThatReceivedAMaskOfTheModel) {
  CreateRun(store_);
  RecordedProgram(store_)
      .In("root", {0, -kInf})
      .Call("root.0", {0, -kInf}, {kNan, kNan})
      .Out("root", {kNan, kNan});
  EXPECT_EQ(Describe(Search(store_)), "op root.0");
}

TEST_F(FindOriginTest, IsNotKnownIfRecordsBeforeTheFirstInputWereLost) {
  CreateRun(store_);
  ReportLost(store_, 0, 1);
  RecordedProgram(store_)
      .In("root", {1})
      .Skip(1)
      .Add(Io::kInput, "root.0", {1}, "1")
      .Out("root.0", {kNan})
      .Out("root", {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("were lost"));
  // Between two tokens.
  for (const uint64_t lost_count : {0, 1}) {
    FakeStore store;
    CreateRun(store);
    ReportLost(store, 0, 1);
    RecordedProgram(store)
        .Call("Torch.exp", {1}, {2})
        .Token(1)
        .Skip(lost_count)
        .Call("Torch.log", {1}, {kNan});
    EXPECT_THAT(Describe(Search(store)),
                HasSubstr(lost_count == 0 ? "op Torch.log" : "were lost"));
  }
}

TEST_F(FindOriginTest, IsNotKnownIfStateOfAnEarlierTokenMayBeBad) {
  const auto answer_after = [](const std::string& statistics,
                               const std::string& op) {
    FakeStore store;
    CreateRun(store);
    {
      RecordedProgram program(store);
      program.AddStatistics("other", statistics);
      program.Token(1).Call(op, {1}, {kNan});
    }
    return Describe(Search(store));
  };
  constexpr char kClean[] = R"({"max": 1, "min": 0, "l2_norm": 1})";
  constexpr char kUnknown[] = R"({"hash": 1})";
  EXPECT_EQ(answer_after(kClean, "root"), "op root token 1");
  EXPECT_EQ(answer_after(kUnknown, "Torch.log"), "op Torch.log token 1");
  EXPECT_THAT(answer_after(kUnknown, "root"), HasSubstr("earlier token"));
  // Lost records of a call that may keep state.
  CreateRun(store_);
  ReportLost(store_, 0, 1);
  RecordedProgram(store_)
      .Call("root", {1}, {1})
      .Token(1)
      .Call("root", {1}, {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("earlier token"));
}

TEST_F(FindOriginTest, AnArgumentThatIsOftenMissingMayBeOneOfAnyOp) {
  for (const int count : {0, 1, 2}) {
    FakeStore store;
    CreateRun(store);
    RecordedProgram(store)
        .AddDocument("not_recorded/1.json",
                     fmt::format(R"({{"skipped":[{{"reason":"an object",)"
                                 R"("count":{},"op":"root.b","index":"1"}}]}})",
                                 count))
        .In("root", {1})
        .Call("root.a", {1}, {kNan})
        .Out("root", {kNan});
    EXPECT_THAT(Describe(Search(store)),
                HasSubstr(count == 1 ? "op root.a" : "an object"))
        << count;
  }
}

TEST_F(FindOriginTest, ContinuesOnTheRankThatHadItFirst) {
  CreateRun(store_, 2);
  RecordedProgram(store_, 0)
      .Call("Torch.log", {1}, {2})
      .Call("Distributed.all_reduce", {2}, {kNan});
  RecordedProgram(store_, 1)
      .Call("Torch.log", {1}, {kNan})
      .Call("Distributed.all_reduce", {kNan}, {kNan});
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "op Torch.log rank 1");
  ASSERT_EQ(answer.reached.size(), 1u);
  EXPECT_EQ(answer.reached[0].tensor, "Distributed.all_reduce output/0");
}

TEST_F(FindOriginTest, NamesACollectiveWhoseInputsAreCleanOnAllRanks) {
  CreateRun(store_, 2);
  for (const int rank : {0, 1}) {
    RecordedProgram(store_, rank).Call("Distributed.all_reduce", {2}, {kInf});
  }
  const OriginAnswer answer = Search(store_);
  EXPECT_EQ(Describe(answer), "op Distributed.all_reduce");
  EXPECT_THAT(answer.origins[0].ranks, ElementsAre(0, 1));
}

TEST_F(FindOriginTest, IsNotKnownIfTheSenderWasNotRecorded) {
  CreateRun(store_, 2);
  RecordedProgram(store_, 0).Call("Distributed.all_reduce", {2}, {kNan});
  EXPECT_THAT(Describe(Search(store_)),
              HasSubstr("rank that was not recorded"));
}

TEST_F(FindOriginTest, IsNotKnownIfARankThatMaySendRecordedLess) {
  // Rank 1 has no records of the token, or has lost some.
  for (const uint64_t dropped : {0, 1}) {
    FakeStore store;
    CreateRun(store, 2);
    ReportLost(store, 1, dropped);
    RecordedProgram(store, 0)
        .Call("Torch.exp", {1}, {2})
        .Token(1)
        .Call("Distributed.all_reduce", {2}, {kNan});
    {
      RecordedProgram other(store, 1);
      other.Call("Torch.exp", {1}, {2});
      if (dropped > 0) other.Token(1).Call("Torch.exp", {1}, {2});
    }
    EXPECT_THAT(Describe(Search(store)), HasSubstr("rank 1"));
  }
}

TEST_F(FindOriginTest, AGapOfOneRankIsOneOfTheRanksItCommunicatesWith) {
  CreateRun(store_, 2);
  RecordedProgram(store_, 0).Out("Distributed.all_reduce", {kNan});
  RecordedProgram(store_, 1).Call("Distributed.all_reduce", {2}, {kNan});
  EXPECT_THAT(Describe(Search(store_)), HasSubstr("were not recorded"));
}

TEST_F(FindOriginTest, NamesAFunctionAlthoughARankIsMissing) {
  CreateRun(store_, 2);
  RecordedProgram(store_, 0).Call("Torch.log", {2}, {kNan});
  EXPECT_EQ(Describe(Search(store_)), "op Torch.log");
}

// Names, positions and sides in any combination: an op that is named has only
// clean inputs, and the search ends.
TEST_F(FindOriginTest, ContradictoryRecordsNeverNameAnOpWithABadInput) {
  std::mt19937 random(3);  // Seeded, so that a failure repeats.
  const std::vector<std::string> ops = {
      "root",  "root.a",    "root.a.b",  "a",           "Torch.log",
      "a..b.", "Torch.exp", "Tensor.__", "Distributed."};
  const Io ios[] = {Io::kInput,      Io::kOutput,    Io::kWeight,
                    Io::kGradOutput, Io::kGradInput, Io::kGradWeight,
                    Io::kState};
  const float values[] = {1, 0, kNan, kInf, -kInf};
  int named_count = 0;
  for (int round = 0; round < 300; ++round) {
    FakeStore store;
    CreateRun(store, 2);
    std::map<std::string, bool> has_bad_input;
    for (const int rank : {0, 1}) {
      RecordedProgram program(store, rank);
      std::set<std::string> known;
      for (int i = 0; i < 24; ++i) {
        const std::string& op = ops[random() % ops.size()];
        const Io io = ios[random() % (random() % 4 == 0 ? 7 : 2)];
        const auto call = static_cast<int32_t>(random() % 2);
        const std::string index = std::to_string(random() % 2);
        const float value = random() % 12 == 0 ? values[random() % 5] : 1;
        const std::string name =
            fmt::format("{} {} {} {}", op, IoName(io), call, index);
        if (!known.insert(name).second) continue;
        program.Add(io, op, {value, 1}, index, call);
        if (random() % 10 == 0) program.Skip(1);
        if (io == Io::kInput && (std::isnan(value) || value == kInf)) {
          has_bad_input[fmt::format("{} {} {}", rank, op, call)] = true;
        }
      }
    }
    const OriginAnswer answer = Search(store, /*is_strict=*/true);
    for (const FoundOrigin& found : answer.origins) {
      const TensorKey& key = found.origin.tensor.key;
      if (found.origin.kind != OriginKind::kOp || key.io != Io::kOutput) {
        continue;
      }
      ++named_count;
      EXPECT_FALSE(has_bad_input.contains(
          fmt::format("{} {} {}", key.rank, key.op, key.call)))
          << round;
    }
  }
  EXPECT_GT(named_count, 10);
}

TEST_F(FindOriginTest, ChainsAreBounded) {
  CreateRun(store_);
  {
    RecordedProgram program(store_);
    program.In("root", {1});
    program.Call("root.0", {1}, {kNan});
    for (int i = 1; i < 100; ++i) {
      program.Call("root." + std::to_string(i), {kNan}, {kNan});
    }
    program.Out("root", {kNan});
  }
  const OriginAnswer answer = Search(store_);
  const FoundOrigin& found = answer.origins[0];
  ASSERT_EQ(found.chain.size(), kChainStepsMax);
  EXPECT_EQ(found.chain.front().op, "root.0");
  EXPECT_EQ(found.chain.back().op, "root");
  EXPECT_EQ(found.omitted_count, 101 - static_cast<int64_t>(kChainStepsMax));
}

}  // namespace
}  // namespace msitd::origin
