// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/daemon/compare/origin/steps_test.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Tests of the makers that a comparison names, and of its statements about
// choices and copies.
class MakersTest : public StepsTest {
 protected:
  static std::vector<std::string> OpsOf(const v1::Comparison& comparison) {
    std::vector<std::string> out;
    for (const v1::Maker& maker : comparison.makers()) {
      out.push_back(v1::Maker::Kind_Name(maker.kind()) + " " + maker.op());
    }
    return out;
  }

  // Returns parts with the same input, each with its own error.
  static std::vector<Step> Branches(const std::vector<float>& errors) {
    std::vector<Step> out = {{">m", 1}};
    for (size_t i = 0; i < errors.size(); ++i) {
      const std::string op = "m.b" + std::to_string(i);
      out.push_back({">" + op, 1});
      out.push_back({op, static_cast<float>(i) + 2, errors[i]});
    }
    out.push_back({"m", 50, 2});
    return out;
  }

  RecordedTensor Integers(std::string op, Io io,
                          const std::vector<int64_t>& values) {
    RecordedTensor out;
    out.op = std::move(op);
    out.io = io;
    out.dtype = DType::kInt64;
    out.shape = {static_cast<int64_t>(values.size())};
    out.bytes = BytesOf(values);
    return out;
  }

  static RecordedTensor Of(std::string op, Io io, std::string index,
                           std::vector<int64_t> shape,
                           const std::vector<float>& values) {
    RecordedTensor out = Floats(op, values);
    out.io = io;
    out.index = std::move(index);
    out.shape = std::move(shape);
    return out;
  }

  // Records a router that chooses one of three by scores, and an op that takes
  // the chosen one. `scores` and `choice` belong to the second row.
  void RecordRouter(RunRecorder& run, const std::vector<float>& scores,
                    int64_t choice, bool has_scores = true) {
    run.Record(Of("m", Io::kInput, "0", {2, 1}, {1, scores[0]}));
    if (has_scores) {
      run.Record(Of("topk", Io::kInput, "0", {2, 3},
                    {3, 2, 1, scores[0], scores[1], scores[2]}));
    } else {
      run.Record(Of("topk", Io::kInput, "0", {2, 1}, {1, scores[0]}));
    }
    RecordedTensor chosen = Integers("topk", Io::kOutput, {0, choice});
    run.Record(chosen);
    run.Record(Of("expert", Io::kInput, "0", {2}, {5, float(choice)}));
    run.Record(Of("expert", Io::kOutput, "0", {2}, {6, float(3 * choice)}));
  }
};

MSITD_ON_BOTH_STORES(MakersTest);

TEST_P(MakersTest, FirstFaultLeadsAndOthersThatDoNotFollowComeWorstFirst) {
  const v1::Comparison comparison = Compare({Branches({0.5F, 0, 2, 4})});
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP m.b0", "OP m.b3", "OP m.b2"));
  EXPECT_EQ(comparison.more_makers_count(), 0);
  EXPECT_EQ(comparison.first_origin().op(), "m.b0");
  EXPECT_EQ(comparison.first_divergence().op(), "m.b0");
}

TEST_P(MakersTest, FiveMakersAreNamedAndTheOthersCounted) {
  const v1::Comparison comparison =
      Compare({Branches({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
  EXPECT_EQ(comparison.makers_size(), 5);
  EXPECT_EQ(comparison.more_makers_count(), 7);
}

TEST_P(MakersTest, WhatFollowsFromAMakerIsNone) {
  // `c` amplifies a small error of `a`, but the error is in its input.
  const v1::Comparison comparison = Compare({{{">m", 1},
                                              {">m.a", 1},
                                              {"m.a", 2, 0.01F},
                                              {">m.c", 2, 0.01F},
                                              {"m.c", 3, 5},
                                              {"m", 4, 5}}});
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP m.a"));
}

TEST_P(MakersTest, ErrorThatHidesBesideLargeNumbersIsPassedOnAllTheSame) {
  // The residual adds the output of `a` to much larger values.
  const v1::Comparison comparison = Compare({{{">m", 1},
                                              {">m.a", 1},
                                              {"m.a", 2, 1},
                                              {">m.n", 1e5F, 0.05F},
                                              {"m.n", 3, 2},
                                              {"m", 4, 2}}});
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP m.a"));
}

TEST_P(MakersTest, WithoutInputsOnRecordEveryOpMayFollow) {
  EXPECT_THAT(
      OpsOf(Compare(
          {{{"m.a", 2, 1}, {"m.b.c", 3, 5}, {"m.b", 4, 5}, {"m", 5, 6}}})),
      ElementsAre("OP m.a"));
}

TEST_P(MakersTest, OpWithSeveralWrongOutputsIsOneMaker) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(Tensor({">a", 1}, is_target));
    for (const char* index : {"0", "1"}) {
      RecordedTensor out = Tensor({"a", 2, 1}, is_target);
      out.index = index;
      run.Record(out);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP a"));
  EXPECT_EQ(comparison.more_makers_count(), 0);
}

TEST_P(MakersTest, BackwardPassFollowsFromTheForwardPass) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(Tensor({">a", 1}, is_target));
    run.Record(Tensor({"a", 2, 1}, is_target));
    RecordedTensor given = Tensor({"b", 7}, is_target);
    given.io = Io::kGradOutput;
    run.Record(given);
    RecordedTensor made = Tensor({"b", 8, 3}, is_target);
    made.io = Io::kGradInput;
    run.Record(made);
    RecordedTensor state = Tensor({"b", 9, 3}, is_target);
    state.io = Io::kState;
    run.Record(state);
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("OP a"));
}

TEST_P(MakersTest, WrongWeightsAreMakersOfTheirOwn) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const char* op : {"a", "b"}) {
      RecordedTensor weight =
          Tensor({op, op[0] == 'a' ? 1.0F : 2.0F, 1}, is_target);
      weight.io = Io::kWeight;
      run.Record(weight);
    }
    run.Record(Tensor({">a", 2}, is_target));
    run.Record(Tensor({"a", 3, 1}, is_target));
    run.Record(Tensor({">b", 3, 1}, is_target));
    run.Record(Tensor({"b", 4, 1}, is_target));
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("WEIGHT a", "WEIGHT b"));
}

TEST_P(MakersTest, TiedWeightsAreOneMaker) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const char* op : {"a", "b", "c"}) {
      RecordedTensor weight =
          Tensor({op, op[0] == 'c' ? 5.0F : 1.0F, 1}, is_target);
      weight.io = Io::kWeight;
      run.Record(weight);
    }
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("WEIGHT a", "WEIGHT c"));
}

TEST_P(MakersTest, WhatIsNotOnRecordOrBackwardOrCodeIsNoFurtherMaker) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const Step& step : std::vector<Step>{{">m", 1},
                                              {">m.a", 1},
                                              {"m.a", 2, 0.1F},
                                              {"m.free", 7, 5},
                                              {">m.b", 6, 5},
                                              {">m.near", 1.5F, 1e-7F},
                                              {"m.near", 9, 3},
                                              {"grad", 8, 4}}) {
      RecordedTensor tensor = Tensor(step, is_target);
      if (tensor.op == "grad") tensor.io = Io::kGradWeight;
      run.Record(tensor);
    }
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("OP m.a"));
}

TEST_P(MakersTest, RankWithoutInputsOnRecordMayHaveReceivedTheFault) {
  // The second rank casts the received tensor, so no equal bytes show the
  // order.
  EXPECT_THAT(OpsOf(Compare({{{">l0", 1}, {"l0", 2, 1}},
                             {{"recv", 2.5F, 1}, {"l1", 4, 2}}})),
              ElementsAre("OP l0"));
}

TEST_P(MakersTest, FaultsOfTwoRanksAreBothNamed) {
  const v1::Comparison comparison = Compare({
      {{">a", 1}, {"a", 2, 0.5F}},
      {{">b", 11}, {"b", 2, 3}},
  });
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP a", "OP b"));
  EXPECT_EQ(comparison.makers(1).row().rank(), 1);
  EXPECT_EQ(comparison.first_divergence().rank(), 0);
}

TEST_P(MakersTest, RanksWithTheSameMakersShareThem) {
  const std::vector<Step> steps = Branches({1, 2});
  const v1::Comparison comparison = Compare({steps, steps});
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP m.b0", "OP m.b1"));
  EXPECT_THAT(comparison.makers(0).ranks(), ElementsAre(1));
  EXPECT_EQ(comparison.more_makers_count(), 0);
}

TEST_P(MakersTest, TokenThatFailsByShapesDoesNotHideWhoFailsLater) {
  // The golden run has twice as many ranks, so one tensor may be a piece of the
  // other.
  RecordedTensor other = Tensor({"other", 1}, false);
  other.rank = 1;
  golden_.Record(other);
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    RecordedTensor piece = Tensor({"piece", 1}, is_target);
    if (is_target) piece.shape = {1, 2};
    run.Record(piece);
    for (const char* name : {">a", "a"}) {
      RecordedTensor later =
          Tensor({name, 2, name[0] == 'a' ? 1.0F : 0}, is_target);
      later.token = 1;
      run.Record(later);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.first_divergence().op(), "piece");
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP a"));
}

TEST_P(MakersTest, RoundingsCompareErrorsOfTypes) {
  Compare({{{">a", 1}, {"a", 1, 0.25F}, {">b", 1, 0.25F}, {"b", 1, 0.25F}}});
  // An error of 0.25 relative to the norm of [1, 3], divided by 2^-24.
  EXPECT_NEAR(rows_[1].roundings(), 0.25 / std::sqrt(10) * 0x1p24, 1e3);
  EXPECT_EQ(rows_[3].roundings(), 0);
  EXPECT_FALSE(rows_[0].has_roundings());
}

TEST_P(MakersTest, IdsOfTheModelAreComparedExactlyWhateverTheTolerance) {
  plan_.policy = *Policy::Create(std::vector<PolicyRule>{{"*", "nl2 <= 1"}});
  golden_.Record(Integers("root", Io::kInput, {7, 8, 9}));
  target_.Record(Integers("root", Io::kInput, {7, 8, 10}));
  golden_.Record(Tensor({"root", 1}, false));
  target_.Record(Tensor({"root", 1, 0.1F}, true));
  v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.input_difference().difference(),
            "target 10, golden 9; 1 of 3 differ");
  EXPECT_EQ(rows_[0].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[0].reason(),
            "integers that the model is given count exactly: target 10, golden "
            "9; 1 of 3 differ");
  EXPECT_EQ(comparison.hopeless_count(), 1);
  // A rule for the op overrides this.
  plan_.policy = *Policy::Create(std::vector<PolicyRule>{{"root", "nl2 <= 1"}});
  comparison = Compare();
  EXPECT_EQ(rows_[0].verdict(), v1::PASS);
  EXPECT_FALSE(comparison.has_input_difference());
}

TEST_P(MakersTest, RuleThatNamesTheModelSuppressesNoMaker) {
  plan_.policy =
      *Policy::Create(std::vector<PolicyRule>{{"root", "mismatch_count <= 1"}});
  golden_.Record(Integers("root", Io::kInput, {7, 8, 9}));
  target_.Record(Integers("root", Io::kInput, {7, 8, 10}));
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(Tensor({">a", 1}, is_target));
    run.Record(Tensor({"a", 2, 1}, is_target));
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("OP a"));
}

TEST_P(MakersTest, ChoiceOfEachRunByItsOwnScoresIsAFlip) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::PASS);
  EXPECT_EQ(rows_[2].flipped_element_count(), 1);
  EXPECT_EQ(rows_[2].reason(),
            "1 of 2 choices differ as their scores do, topk input/0: each run "
            "chose by its own");
  EXPECT_EQ(comparison.flipped_count(), 1);
  for (const size_t i : {3, 4}) {
    EXPECT_EQ(rows_[i].origin(), v1::FLIPPED);
    EXPECT_EQ(rows_[i].verdict(), v1::SKIPPED);
    EXPECT_TRUE(rows_[i].not_compared());
    EXPECT_FALSE(rows_[i].has_roundings());
    EXPECT_FALSE(rows_[i].has_amplification());
    EXPECT_THAT(rows_[i].reason(),
                StartsWith("not decided, because it follows from choices that "
                           "differ as their scores do, topk output/0: nl2 = "));
  }
  EXPECT_TRUE(comparison.makers().empty());
  EXPECT_FALSE(comparison.has_first_divergence());
  EXPECT_FALSE(comparison.has_first_origin());
}

TEST_P(MakersTest, RulesDecideWhatFollowsFromAFlip) {
  plan_.policy =
      *Policy::Create(std::vector<PolicyRule>{{"expert", "nl2 <= 1e-2"}});
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[3].verdict(), v1::FAIL);
  ASSERT_THAT(OpsOf(comparison), ElementsAre("FLIP topk"));
  EXPECT_EQ(comparison.makers(0).row().row(), 2);
  EXPECT_EQ(comparison.makers(0).row().reason(), rows_[2].reason());
}

// An op can be wrong even if its inputs follow from a flip.
TEST_P(MakersTest, OpAfterAFlipIsJudgedByItsInputs) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const Step& step : std::vector<Step>{{">block", 7, 0.5F},
                                              {"block", 8, 0.5F},
                                              {">last", 9, 0.5F},
                                              {"last", 3, 90}}) {
      run.Record(Tensor(step, is_target));
    }
  }
  const v1::Comparison comparison = Compare();
  for (const size_t i : {5, 6, 7}) {
    EXPECT_EQ(rows_[i].verdict(), v1::SKIPPED) << i;
  }
  EXPECT_EQ(rows_[8].verdict(), v1::FAIL);
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP last"));
}

TEST_P(MakersTest, CodeMayKeepWhatFollowsFromAFlipForLaterTokens) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    // The flip reaches the code of n.
    run.Record(Tensor({">n", 7, 0.5F}, is_target));
    run.Record(Tensor({"n", 8, 0.5F}, is_target));
    for (const Step& step : std::vector<Step>{{">n", 7},
                                              {">n.attention", 8, 1},
                                              {"n.attention", 9, 1},
                                              {">n.op", 10},
                                              {"n.op", 11, 2},
                                              {"n", 12, 2}}) {
      RecordedTensor tensor = Tensor(step, is_target);
      tensor.token = 1;
      run.Record(tensor);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[8].verdict(), v1::SKIPPED);
  EXPECT_THAT(rows_[8].reason(),
              HasSubstr("scores do, topk output/0 at an earlier token: nl2"));
  EXPECT_EQ(rows_[9].verdict(), v1::SKIPPED);
  // An op whose inputs are equal keeps nothing.
  EXPECT_EQ(rows_[11].verdict(), v1::FAIL);
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP n.op"));
}

TEST_P(MakersTest, ResultThatFollowsFromAFlipBeginsTheNextToken) {
  for (const int64_t size : {64, 63}) {
    const std::string name = std::to_string(size);
    RunRecorder golden(store_, "g" + name);
    RunRecorder target(store_, "t" + name);
    plan_.golden_run = "g" + name;
    plan_.target_run = "t" + name;
    RecordRouter(golden, {1, 1.000001F, 0}, 1);
    RecordRouter(target, {1.000002F, 1.000001F, 0}, 0);
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      std::vector<float> scores(size, 1);
      scores[0] = is_target ? 3 : 2;
      run.Record(Of("m", Io::kOutput, "0", {1, size}, scores));
      RecordedTensor copy = Of("clone", Io::kInput, "0", {1, size}, scores);
      copy.token = 1;
      run.Record(copy);
    }
    Compare();
    EXPECT_EQ(rows_[5].verdict(), v1::SKIPPED);
    EXPECT_EQ(rows_[6].verdict(), size < 64 ? v1::FAIL : v1::SKIPPED);
    if (size < 64) continue;
    EXPECT_THAT(rows_[6].reason(),
                HasSubstr("scores do, topk output/0 at an earlier token: nl2"));
  }
}

// A small number of values is often equal by chance.
TEST_P(MakersTest, OpThatChoosesAsAFlipDidIsAFault) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    RecordedTensor given = Of("pick", Io::kInput, "0", {1, 2}, {1, 2});
    RecordedTensor chosen = Integers("pick", Io::kOutput, {0, !is_target});
    given.token = chosen.token = 1;
    run.Record(given);
    run.Record(chosen);
  }
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("OP pick"));
  EXPECT_EQ(rows_[6].verdict(), v1::FAIL);
}

TEST_P(MakersTest, CodeThatAFlipHasNotReachedKeepsNothingOfIt) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  for (const bool is_target : {false, true}) {
    for (const Step& step :
         std::vector<Step>{{">n", 7}, {">n.op", 8, 1}, {"n.op", 9, 1}}) {
      RecordedTensor tensor = Tensor(step, is_target);
      tensor.token = 1;
      (is_target ? target_ : golden_).Record(tensor);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[6].verdict(), v1::FAIL);
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OWN_CODE n"));
}

TEST_P(MakersTest, NewNanDoesNotFollowFromAFlip) {
  RecordRouter(golden_, {1, 1.000001F, 0}, 1);
  RecordRouter(target_, {1.000002F, 1.000001F, 0}, 0);
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(
        Of("block", Io::kInput, "0", {1, 2}, {is_target ? NAN : 7.0F, 7}));
  }
  Compare();
  EXPECT_EQ(rows_[5].verdict(), v1::FAIL);
  EXPECT_NE(rows_[5].origin(), v1::FLIPPED);
}

TEST_P(MakersTest, OnlyCopiesOfFlipsPassWithThem) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    const int64_t chosen = is_target ? 0 : 1;
    run.Record(Of("topk", Io::kInput, "0", {2, 3},
                  {3, 2, 1, is_target ? 1.00002F : 1, 1.00001F, 0}));
    run.Record(Integers("topk", Io::kOutput, {0, chosen}));
    run.Record(Integers("hot", Io::kInput, {0, chosen}));
    run.Record(Integers("hot", Io::kOutput, {1, 0, 1 - chosen, chosen}));
    // Unrecorded code has combined a flipped choice with another difference.
    run.Record(Integers("where", Io::kInput, {7, chosen}));
    run.Record(Of("add", Io::kInput, "0", {1}, {is_target ? 1.5F : 1}));
    run.Record(Integers("after", Io::kInput, {8, chosen}));
  }
  Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::PASS);
  EXPECT_EQ(rows_[2].reason(),
            "follows from choices that differ as their scores do: topk "
            "output/0");
  EXPECT_EQ(rows_[3].verdict(), v1::SKIPPED);
  EXPECT_EQ(rows_[4].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[6].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[3].origin(), v1::FLIPPED);
  EXPECT_EQ(rows_[6].origin(), v1::UNKNOWN_INPUTS);
}

TEST_P(MakersTest, QuantisedNumbersAndOtherTypesAreNoChoices) {
  for (const DType type : {DType::kInt8, DType::kInt32}) {
    const std::string name = DTypeName(type).data();
    RunRecorder golden(store_, "g " + name);
    RunRecorder target(store_, "t " + name);
    plan_.golden_run = "g " + name;
    plan_.target_run = "t " + name;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      run.Record(Of("op", Io::kInput, "0", {1, 3},
                    {is_target ? 3.0001F : 3, 3.00005F, 0}));
      RecordedTensor out = Integers("op", Io::kOutput, {is_target ? 0 : 1});
      if (type == DType::kInt8) {
        out.dtype = type;
        out.bytes =
            BytesOf(std::vector<int8_t>{is_target ? int8_t{0} : int8_t{1}});
      } else if (is_target) {
        out.dtype = type;
        out.bytes = BytesOf(std::vector<int32_t>{0});
      }
      run.Record(out);
    }
    Compare();
    EXPECT_EQ(rows_[1].verdict(), v1::FAIL) << name;
    EXPECT_EQ(rows_[1].flipped_element_count(), 0) << name;
  }
}

TEST_P(MakersTest, CopiesOfChoicesStayFailed) {
  v1::Matching matching;
  for (v1::Layout* const layout :
       {matching.add_golden_layouts(), matching.add_target_layouts()}) {
    layout->set_op_pattern("topk");
    layout->set_kind(v1::Layout::REPLICATED);
  }
  plan_.matching = *MatchRules::Create(matching);
  for (const bool is_target : {false, true}) {
    for (const int32_t rank : {0, 1}) {
      RunRecorder& run = is_target ? target_ : golden_;
      RecordedTensor scores = Of("topk", Io::kInput, "0", {1, 3},
                                 {is_target ? 3.0001F : 3, 3.00005F, 0});
      scores.rank = rank;
      run.Record(scores);
      RecordedTensor out = Integers("topk", Io::kOutput,
                                    {!is_target  ? 1
                                     : rank == 0 ? 0
                                                 : 2});
      out.rank = rank;
      run.Record(out);
    }
  }
  Compare();
  EXPECT_EQ(rows_[1].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[1].flipped_element_count(), 0);
}

// A block passes some rows of its input to an expert, selected by the scores of
// a gate.
TEST_P(MakersTest, RowsSelectedByNearScoresAreNotDecided) {
  for (const float gap : {1e-5F, 0.5F, 0.0F}) {
    const std::string name = gap == 0     ? " equal"
                             : gap < 0.1F ? " near"
                                          : " far";
    RunRecorder golden(store_, "g" + name);
    RunRecorder target(store_, "t" + name);
    plan_.golden_run = "g" + name;
    plan_.target_run = "t" + name;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      const float noise = is_target && gap > 0 ? 1e-5F : 0;
      const std::vector<float> rows = {1, 2, 3, 4, 5 + noise, 6};
      run.Record(Of("block", Io::kInput, "0", {2, 3}, rows));
      run.Record(Of("block.gate", Io::kInput, "0", {2, 3}, rows));
      run.Record(Of("block.gate", Io::kOutput, "0", {2, 2},
                    {9, 1, 1 + noise, 1 + gap / 2}));
      run.Record(Of("block.experts.1", Io::kInput, "0", {is_target ? 2 : 1, 3},
                    is_target ? rows : std::vector<float>{1, 2, 3}));
      run.Record(
          Of("block.experts.1", Io::kOutput, "0", {is_target ? 2 : 1, 1},
             is_target ? std::vector<float>{1, 7} : std::vector<float>{1}));
    }
    const v1::Comparison comparison = Compare();
    EXPECT_EQ(rows_[3].flipped_element_count(), 0);
    if (gap == 1e-5F) {
      EXPECT_TRUE(comparison.makers().empty());
      for (const size_t i : {3, 4}) {
        EXPECT_EQ(rows_[i].verdict(), v1::SKIPPED);
        EXPECT_EQ(rows_[i].origin(), v1::FLIPPED);
        EXPECT_TRUE(rows_[i].not_compared());
      }
      EXPECT_THAT(
          rows_[3].reason(),
          HasSubstr("; 1 row of block input/0 selected in one run only, where "
                    "the scores, block.gate output/0, are nearly equal"));
      EXPECT_THAT(rows_[4].reason(),
                  StartsWith("not decided, because it follows from choices "
                             "that differ as their scores do, block.experts.1 "
                             "input/0: shape: "));
    } else {
      EXPECT_EQ(rows_[3].verdict(), v1::FAIL);
      EXPECT_THAT(OpsOf(comparison), ElementsAre("OWN_CODE block"));
    }
  }
}

// An expert receives the rows that prefer it before those for which it is the
// second choice.
TEST_P(MakersTest, RowsInAnOrderByNearScoresAreNotDecided) {
  for (const bool is_near : {true, false}) {
    const std::string name = is_near ? " near" : " far";
    RunRecorder golden(store_, "g" + name);
    RunRecorder target(store_, "t" + name);
    plan_.golden_run = "g" + name;
    plan_.target_run = "t" + name;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      const float noise = is_target ? 1e-5F : 0;
      const std::vector<float> rows = {1, 2, 3, 4, 5 + noise, 6};
      run.Record(Of("block", Io::kInput, "0", {2, 3}, rows));
      run.Record(Of("block.gate", Io::kInput, "0", {2, 3}, rows));
      const float second = is_near ? 1.000005F : 3;
      run.Record(Of("block.gate", Io::kOutput, "0", {2, 2},
                    {2, 1, 1 + noise, second}));
      run.Record(Of("block.experts.0", Io::kInput, "0", {2, 3},
                    is_target ? rows : std::vector<float>{4, 5, 6, 1, 2, 3}));
    }
    const v1::Comparison comparison = Compare();
    if (is_near) {
      EXPECT_TRUE(comparison.makers().empty());
      EXPECT_EQ(rows_[3].verdict(), v1::SKIPPED);
      EXPECT_THAT(
          rows_[3].reason(),
          HasSubstr(
              "; 2 rows of block input/0 selected in another order, where "
              "the scores, block.gate output/0, are nearly equal"));
    } else {
      EXPECT_EQ(rows_[3].verdict(), v1::FAIL);
      EXPECT_THAT(OpsOf(comparison), ElementsAre("OWN_CODE block"));
    }
  }
}

// Among many scores, some are always close.
TEST_P(MakersTest, OnlyTheScoreOfTheExpertItselfExplainsItsRows) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    const float noise = is_target ? 1e-5F : 0;
    const std::vector<float> rows = {1, 2, 3, 4, 5 + noise, 6};
    run.Record(Of("block", Io::kInput, "0", {2, 3}, rows));
    run.Record(Of("block.gate", Io::kInput, "0", {2, 3}, rows));
    run.Record(Of("block.gate", Io::kOutput, "0", {2, 4},
                  {9, 1, 2, 3, 1 + noise, 5, 7, 7.00001F}));
    run.Record(Of("block.experts.1", Io::kInput, "0", {is_target ? 2 : 1, 3},
                  is_target ? rows : std::vector<float>{1, 2, 3}));
  }
  Compare();
  EXPECT_EQ(rows_[3].verdict(), v1::FAIL);
}

// Each run passes its only row to another expert.
TEST_P(MakersTest, ExpertsOfOneRunFollowFromNearScores) {
  for (const float gap : {1e-5F, 0.5F}) {
    const std::string name = gap < 0.1F ? " near" : " far";
    RunRecorder golden(store_, "g" + name);
    RunRecorder target(store_, "t" + name);
    plan_.golden_run = "g" + name;
    plan_.target_run = "t" + name;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      const float noise = is_target ? 1e-5F : 0;
      const std::vector<float> row = {4, 5 + noise, 6};
      const std::string expert =
          is_target ? "block.experts.1" : "block.experts.0";
      run.Record(Of("block", Io::kInput, "0", {1, 3}, row));
      run.Record(Of("block.gate", Io::kInput, "0", {1, 3}, row));
      run.Record(
          Of("block.gate", Io::kOutput, "0", {1, 2}, {1 + noise, 1 + gap / 2}));
      run.Record(Of(expert, Io::kInput, "0", {1, 3}, row));
      // The functions of both experts have the same number.
      const float weight = is_target ? 3 : 4;
      run.Record(Of("Functional.linear", Io::kInput, "1", {1, 1}, {weight}));
      run.Record(Of(expert + ".w", Io::kOutput, "0", {1, 2}, {7, 8}));
      run.Record(Of(expert, Io::kOutput, "0", {1, 3}, {1, 2, 3}));
      const float result = is_target ? 9 : 2;
      run.Record(Of("block", Io::kOutput, "0", {1, 3}, {1, result, 3}));
    }
    const v1::Comparison comparison = Compare();
    ASSERT_EQ(rows_.size(), 11u);
    if (gap > 0.1F) {
      EXPECT_EQ(comparison.unmatched_count(), 6);
      EXPECT_EQ(comparison.fail_count(), 2);
      continue;
    }
    EXPECT_EQ(comparison.not_compared_count(), 8);
    EXPECT_EQ(comparison.allowed_unmatched_count(), 0);
    EXPECT_TRUE(comparison.makers().empty());
    for (const v1::ComparisonRow& row : rows_) {
      if (row.verdict() == v1::PASS) continue;
      EXPECT_EQ(row.verdict(), v1::SKIPPED);
      EXPECT_EQ(row.origin(), v1::FLIPPED);
      EXPECT_THAT(row.reason(),
                  StartsWith("not decided, because it follows from choices "
                             "that differ as their scores do, block.experts.0 "
                             "input/0: "));
    }
  }
}

TEST_P(MakersTest, ChoiceThatIsNotThatOfItsScoresIsAFault) {
  RecordRouter(golden_, {1, 1.5F, 0}, 1);
  RecordRouter(target_, {1.00002F, 1.5F, 0}, 0);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::FAIL);
  EXPECT_THAT(rows_[2].reason(),
              HasSubstr("its scores, topk input/0, do not explain that"));
  EXPECT_THAT(OpsOf(comparison), ElementsAre("OP topk"));
}

TEST_P(MakersTest, SecondBestOfItsOwnScoresIsAFaultHoweverNearTheyAre) {
  RecordRouter(golden_, {1, 1.00001F, 0}, 1);
  RecordRouter(target_, {1.00002F, 1.00003F, 0}, 0);
  Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::FAIL);
}

TEST_P(MakersTest, NoMoreThanSomePairsOfIntegersAreLookedAt) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (int i = 0; i < 70; ++i) {
      const std::string op = "op" + std::to_string(i);
      const auto base = static_cast<float>(3 * i + 3);
      std::vector<float> scores(static_cast<size_t>(i) + 8);
      scores[i] = base + (is_target ? 1e-4F : 0);
      scores[i + 1] = base + 5e-5F;
      run.Record(Of(op, Io::kInput, "0",
                    {1, static_cast<int64_t>(scores.size())}, scores));
      run.Record(Integers(op, Io::kOutput, {is_target ? i : i + 1}));
    }
  }
  EXPECT_EQ(Compare().flipped_count(), 64);
}

TEST_P(MakersTest, ChoiceByWrongScoresFollowsFromThem) {
  RecordRouter(golden_, {1, 1.5F, 0}, 1);
  RecordRouter(target_, {4, 1.5F, 0}, 0);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[2].origin(), v1::PASSED_ON);
  EXPECT_THAT(OpsOf(comparison), ElementsAre("MODEL_INPUTS "));
}

TEST_P(MakersTest, ChoiceWithoutScoresOnRecordIsNotKnown) {
  RecordRouter(golden_, {1, 0, 0}, 1, false);
  RecordRouter(target_, {1.000001F, 0, 0}, 0, false);
  const v1::Comparison comparison = Compare();
  ASSERT_THAT(OpsOf(comparison), ElementsAre("NOT_KNOWN topk"));
  EXPECT_EQ(comparison.makers(0).note(),
            "topk output/0 may have been chosen by scores that differ by "
            "rounding, and these are not on record");
}

TEST_P(MakersTest, ChoiceFromEqualTensorsIsAFaultEvenWithoutScores) {
  RecordRouter(golden_, {1, 0, 0}, 1, false);
  RecordRouter(target_, {1, 0, 0}, 0, false);
  EXPECT_THAT(OpsOf(Compare()), ElementsAre("OP topk"));
}

TEST_P(MakersTest, GoldenShowsWhichCopiesAreWrongHoweverManyTheyAre) {
  v1::Matching matching;
  v1::Layout& layout = *matching.add_target_layouts();
  layout.set_op_pattern("norm");
  layout.set_kind(v1::Layout::REPLICATED);
  plan_.matching = *MatchRules::Create(matching);
  golden_.Record(Tensor({"norm", 2}, false));
  for (const int32_t rank : {0, 1, 2}) {
    RecordedTensor tensor = Tensor({"norm", 2, rank < 2 ? 1.0F : 0}, true);
    tensor.rank = rank;
    target_.Record(tensor);
  }
  const v1::Comparison comparison = Compare();
  ASSERT_THAT(OpsOf(comparison), ElementsAre("COPIES norm"));
  EXPECT_THAT(comparison.makers(0).ranks(), ElementsAre(0, 1));
}

TEST_P(MakersTest, RankWhoseCopyDiffersIsTheFinding) {
  v1::Matching matching;
  v1::Layout& layout = *matching.add_target_layouts();
  layout.set_op_pattern("norm");
  layout.set_kind(v1::Layout::REPLICATED);
  plan_.matching = *MatchRules::Create(matching);
  golden_.Record(Tensor({">norm", 1}, false));
  golden_.Record(Tensor({"norm", 2}, false));
  for (const int32_t rank : {0, 1, 2}) {
    for (const char* name : {">norm", "norm"}) {
      RecordedTensor tensor =
          Tensor({name, name[0] == '>' ? 1.0F : 2.0F}, true);
      if (rank == 0 && name[0] != '>') {
        tensor = Tensor({name, 2, 1e-6F}, true);
      }
      tensor.rank = rank;
      target_.Record(tensor);
    }
  }
  const v1::Comparison comparison = Compare();
  ASSERT_THAT(OpsOf(comparison), ElementsAre("COPIES norm"));
  EXPECT_THAT(comparison.makers(0).ranks(), ElementsAre(0));
  EXPECT_THAT(comparison.makers(0).row().reason(),
              HasSubstr("rank 0 has other bytes than rank 1"));
}

}  // namespace
}  // namespace msitd::compare
