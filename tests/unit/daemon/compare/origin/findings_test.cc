// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/daemon/compare/origin/steps_test.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FindingsTest : public StepsTest {};

MSITD_ON_BOTH_STORES(FindingsTest);

TEST_P(FindingsTest, RankThatWasSentWhatIsWrongIsNotTheFirst) {
  // The stages of a pipeline use the same names for their layers, and the
  // second stage has smaller sequences.
  const v1::Comparison comparison = Compare({
      {{">root", 1},
       {">l0", 1},
       {"l0", 2},
       {">l1", 2},
       {"l1", 3, 1},
       {"root", 3, 1}},
      {{">root", 3, 1}, {">l0", 3, 1}, {"l0", 4, 1}, {"root", 4, 1}},
  });
  EXPECT_EQ(comparison.first_divergence().rank(), 0);
  EXPECT_EQ(comparison.first_divergence().op(), "l1");
  EXPECT_EQ(comparison.concurrent_divergences_size(), 0);
  EXPECT_EQ(MakerOf(comparison), "OP l1 0");
  EXPECT_EQ(comparison.first_origin().op(), "l1");
}

TEST_P(FindingsTest, RankThatMadeItWinsOverThoseThatSumIt) {
  const v1::Comparison comparison = Compare({
      {{">mlp", 1}, {">mlp.up", 1}, {"mlp.up", 2}, {"mlp", 5, 1}},
      {{"watch", 7},
       {"watch2", 8},
       {"watch3", 9},
       {">mlp", 1},
       {">mlp.up", 1},
       {"mlp.up", 3, 1},
       {"mlp", 5, 1}},
  });
  EXPECT_EQ(comparison.first_divergence().rank(), 1);
  EXPECT_EQ(comparison.first_divergence().op(), "mlp.up");
  EXPECT_EQ(MakerOf(comparison), "OP mlp.up 1");
  EXPECT_EQ(comparison.makers_size(), 1);
}

TEST_P(FindingsTest, PartOfAnotherRankWinsWithoutAnySharedBytes) {
  const v1::Comparison comparison = Compare({
      {{">moe", 1}, {"moe", 5, 1}},
      {{">moe", 11}, {">moe.expert", 11}, {"moe.expert", 3, 1}},
  });
  EXPECT_EQ(MakerOf(comparison), "OP moe.expert 1");
  EXPECT_EQ(comparison.makers_size(), 1);
}

TEST_P(FindingsTest, RanksThatAreConcurrentAreBothNamed) {
  const v1::Comparison comparison = Compare({
      {{">a", 1}, {"a", 2}, {">b", 2}, {"b", 3, 1}},
      {{">a", 11}, {"a", 12, 1}, {">b", 12, 1}, {"b", 13, 1}},
  });
  EXPECT_EQ(comparison.first_divergence().op(), "a");
  ASSERT_EQ(comparison.concurrent_divergences_size(), 1);
  EXPECT_EQ(comparison.concurrent_divergences(0).op(), "b");
  // The first maker is listed first, although it is not the worst.
  EXPECT_EQ(MakerOf(comparison), "OP a 1");
  ASSERT_EQ(comparison.makers_size(), 2);
  EXPECT_EQ(comparison.makers(1).op(), "b");
}

TEST_P(FindingsTest, RanksThatDoTheSameShareAMaker) {
  const std::vector<Step> steps = {{">a", 1}, {"a", 2, 1}};
  const v1::Comparison comparison = Compare({steps, steps, steps});
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_THAT(comparison.makers(0).ranks(), ElementsAre(1, 2));
  EXPECT_EQ(comparison.concurrent_divergences_size(), 2);
}

TEST_P(FindingsTest, CodeBetweenPartsIsNamedWithBoth) {
  const v1::Comparison comparison = Compare({{{">m", 1},
                                              {">m.a", 1},
                                              {"m.a", 2},
                                              {">m.b", 3, 1},
                                              {"m.b", 4, 1},
                                              {"m", 4, 1}}});
  ASSERT_EQ(comparison.makers_size(), 1);
  const v1::Maker& maker = comparison.makers(0);
  EXPECT_EQ(maker.kind(), v1::Maker::OWN_CODE);
  EXPECT_EQ(maker.op(), "m");
  EXPECT_EQ(maker.after(), "m.a");
  EXPECT_EQ(maker.before(), "m.b");
  EXPECT_EQ(maker.input_error(), 0);
  EXPECT_GT(maker.output_error(), 0.1);
  EXPECT_EQ(rows_[3].origin(), v1::CREATED);
  EXPECT_EQ(rows_[4].origin(), v1::PASSED_ON);
  EXPECT_EQ(rows_[5].origin(), v1::INSIDE);
}

TEST_P(FindingsTest, OpThatTheFilterLeavesOutIsNotBlamedOnTheCodeAround) {
  plan_.selector.ios = {Io::kInput};
  const v1::Comparison comparison = Compare({{{">m", 1},
                                              {">m.a", 1},
                                              {"m.a", 2, 1},
                                              {">m.b", 2, 1},
                                              {"m.b", 4, 1},
                                              {"m", 4, 1}}});
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_EQ(comparison.makers(0).kind(), v1::Maker::NOT_KNOWN);
  EXPECT_EQ(comparison.makers(0).op(), "m.b");
  EXPECT_EQ(comparison.makers(0).note(),
            "the filter may leave out the op that made it");
}

TEST_P(FindingsTest, FilterThatTakesAllPartsOfAnOpHidesNothing) {
  const std::vector<std::vector<Step>> steps = {{{">r", 1},
                                                 {">r.m", 1},
                                                 {">r.m.a", 1},
                                                 {"r.m.a", 2},
                                                 {">r.m.b", 3, 1},
                                                 {"r.m.b", 4, 1},
                                                 {"r.m", 4, 1},
                                                 {"r", 4, 1}}};
  plan_.selector.op_patterns = {"r.m*"};
  EXPECT_EQ(MakerOf(Compare(steps)), "OWN_CODE r.m 0");
  plan_.selector.op_patterns = {"r.m.b"};
  EXPECT_EQ(MakerOf(Compare()), "NOT_KNOWN r.m.b 0");
}

TEST_P(FindingsTest, ErrorThatGrowsIsDrift) {
  plan_.policy =
      *Policy::Create(std::vector<PolicyRule>{{"*", "max_abs <= 1e-6"}});
  const v1::Comparison comparison = Compare({{{">a", 1},
                                              {"a", 2, 3e-7F},
                                              {">b", 2, 3e-7F},
                                              {"b", 3, 8e-7F},
                                              {">c", 3, 8e-7F},
                                              {"c", 4, 2e-6F}}});
  EXPECT_EQ(comparison.first_divergence().op(), "c");
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_EQ(comparison.makers(0).kind(), v1::Maker::DRIFT);
  EXPECT_FALSE(comparison.has_first_origin());
  EXPECT_EQ(rows_[5].origin(), v1::DRIFTED);
  EXPECT_LT(rows_[5].amplification(), kAmplificationMax);
}

TEST_P(FindingsTest, CallsOfAnOpAreKeptApart) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const int call : {0, 1}) {
      for (Step step :
           {Step{">m", 1}, Step{">m.a", 1}, Step{"m.a", 2}, Step{"m", 3}}) {
        step.value += static_cast<float>(10 * call);
        // In the first call, a part of the module fails. In the second call,
        // the module itself fails.
        if (step.op == (call == 0 ? "m.a" : "m")) step.error = 1;
        RecordedTensor tensor = Tensor(step, is_target);
        tensor.call = call;
        run.Record(tensor);
      }
    }
  }
  Compare();
  EXPECT_EQ(rows_[2].origin(), v1::CREATED);
  EXPECT_EQ(rows_[7].origin(), v1::CREATED);
}

TEST_P(FindingsTest, WeightThatFailsIsTheMaker) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    RecordedTensor weight = Tensor({"a", 1, 1}, is_target);
    weight.io = Io::kWeight;
    weight.index = "weight";
    run.Record(weight);
    run.Record(Tensor({">a", 2}, is_target));
    run.Record(Tensor({"a", 3, 1}, is_target));
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(MakerOf(comparison), "WEIGHT a 0");
  EXPECT_EQ(rows_[0].origin(), v1::CREATED);
  EXPECT_EQ(rows_[2].origin(), v1::PASSED_ON);
}

TEST_P(FindingsTest, PiecesOfTensorsAreNobodysFault) {
  // The golden run has twice as many ranks.
  golden_.Record([] {
    RecordedTensor other = Tensor({"other", 1}, false);
    other.rank = 1;
    return other;
  }());
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    RecordedTensor shard = Tensor({"shard", 1}, is_target);
    if (is_target) shard.shape = {1, 2};
    run.Record(shard);
    run.Record(Tensor({">b", 2}, is_target));
    run.Record(Tensor({"b", 3, 1}, is_target));
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.first_divergence().op(), "shard");
  EXPECT_EQ(rows_[0].origin(), v1::ORIGIN_UNSPECIFIED);
  EXPECT_EQ(MakerOf(comparison), "OP b 0");
}

TEST_P(FindingsTest, OtherShapesOfAsManyRanksAreAnError) {
  // For example, each token has a different number of experts.
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(Tensor({">route", 1}, is_target));
    for (const char* name : {"route", ">expert", "expert"}) {
      RecordedTensor rows = Tensor({name, 2, 1}, is_target);
      if (is_target) rows.shape = {1, 2};
      run.Record(rows);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.first_divergence().op(), "route");
  EXPECT_EQ(MakerOf(comparison), "OP route 0");
  EXPECT_EQ(rows_[2].origin(), v1::PASSED_ON);
  EXPECT_EQ(rows_[3].origin(), v1::PASSED_ON);
}

TEST_P(FindingsTest, WhoForgetsAnInputIsTheMaker) {
  for (const bool golden_has_it : {false, true}) {
    const std::string golden_name = golden_has_it ? "has" : "lacks";
    RunRecorder golden(store_, "g " + golden_name);
    RunRecorder target(store_, "t " + golden_name);
    plan_.golden_run = "g " + golden_name;
    plan_.target_run = "t " + golden_name;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      run.Record(Tensor({">m", 1}, is_target));
      run.Record(Tensor({">m.attend", 1}, is_target));
      if (is_target != golden_has_it) {
        RecordedTensor mask = Tensor({">m.attend", 7}, is_target);
        mask.index = "attn_mask";
        run.Record(mask);
      }
      run.Record(Tensor({"m.attend", 3, 1}, is_target));
      run.Record(Tensor({"m", 4, 1}, is_target));
    }
    const v1::Comparison comparison = Compare();
    ASSERT_EQ(comparison.makers_size(), 1);
    const v1::Maker& maker = comparison.makers(0);
    EXPECT_EQ(maker.kind(), v1::Maker::OWN_CODE);
    EXPECT_EQ(maker.op(), "m");
    EXPECT_EQ(maker.before(), "m.attend");
    EXPECT_EQ(maker.note(), golden_has_it ? "only golden gives it attn_mask"
                                          : "only target gives it attn_mask");
  }
}

TEST_P(FindingsTest, WhoGivesAnotherArgumentIsTheMaker) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    run.Record(Tensor({">m", 1}, is_target));
    run.Record(Tensor({">m.attend", 1}, is_target));
    for (const auto& [name, text, kind] :
         {std::tuple("scale", is_target ? "1.0" : "0.125", RecordKind::kNumber),
          std::tuple("where",
                     is_target ? "device(type='npu')" : "device(type='cpu')",
                     RecordKind::kOther),
          std::tuple("mode", "causal", RecordKind::kText)}) {
      RecordedTensor value;
      value.op = "m.attend";
      value.io = Io::kInput;
      value.index = name;
      value.kind = kind;
      value.value = text;
      value.dtype =
          kind == RecordKind::kNumber ? DType::kFloat64 : DType::kUint8;
      value.shape = {0};
      if (kind == RecordKind::kNumber) {
        value.shape = {};
        value.bytes = BytesOf<double>({std::stod(text)});
      }
      run.Record(value);
    }
    run.Record(Tensor({"m.attend", 3, 1}, is_target));
    run.Record(Tensor({"m", 4, 1}, is_target));
  }
  const v1::Comparison comparison = Compare();
  ASSERT_EQ(comparison.makers_size(), 1);
  const v1::Maker& maker = comparison.makers(0);
  EXPECT_EQ(maker.kind(), v1::Maker::OWN_CODE);
  EXPECT_EQ(maker.op(), "m");
  EXPECT_EQ(maker.before(), "m.attend");
  EXPECT_EQ(maker.note(), "other argument: scale: target 1.0, golden 0.125");
  EXPECT_EQ(maker.row().op(), "m.attend");
}

TEST_P(FindingsTest, ValueThatWasRecordedByItselfHasItsErrorFromBefore) {
  const v1::Comparison comparison = Compare(
      {{{">a", 1}, {"a", 2, 1}, {">b", 2, 1}, {"b", 3, 1}, {"loss", 5, 1}}});
  EXPECT_EQ(MakerOf(comparison), "OP a 0");
  EXPECT_EQ(rows_[4].origin(), v1::PASSED_ON);
}

TEST_P(FindingsTest, FirstInequalityIsToldWhateverPasses) {
  const v1::Comparison comparison = Compare({{{">a", 1},
                                              {"a", 2},
                                              {">b", 2},
                                              {"b", 3, 1e-5F},
                                              {">c", 3, 1e-5F},
                                              {"c", 4, 2e-5F}}});
  EXPECT_EQ(comparison.fail_count(), 0);
  EXPECT_EQ(comparison.first_inequality().op(), "b");
  EXPECT_EQ(comparison.first_inequality().io(), v1::IO_OUTPUT);
  EXPECT_EQ(comparison.first_inequality().verdict(), v1::PASS);
}

TEST_P(FindingsTest, EqualRunsHaveNoInequality) {
  EXPECT_FALSE(Compare({{{">a", 1}, {"a", 2}}}).has_first_inequality());
}

TEST_P(FindingsTest, TokensThatTheModelIsGivenAreSaidAndNobodyMadeThem) {
  for (const bool is_target : {false, true}) {
    RunRecorder& run = is_target ? target_ : golden_;
    for (const int64_t token : {0, 1}) {
      RecordedTensor ids = Tensor({">root", 1}, is_target);
      ids.dtype = DType::kInt64;
      ids.shape = {1};
      ids.bytes = BytesOf<int64_t>({is_target && token == 1 ? 403 : 186});
      ids.token = token;
      run.Record(ids);
      RecordedTensor logits =
          Tensor({"root", 2, token == 1 ? 1.0F : 0}, is_target);
      logits.token = token;
      run.Record(logits);
    }
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.input_difference().row().token(), 1);
  EXPECT_EQ(comparison.input_difference().difference(),
            "target 403, golden 186");
  EXPECT_EQ(comparison.first_divergence().token(), 1);
  EXPECT_EQ(comparison.makers_size(), 0);
  EXPECT_FALSE(comparison.has_first_origin());
}

TEST_P(FindingsTest, WhatMayBeAloneIsSkippedAndCounted) {
  for (const char* op : {"a", "a.drop", "b"}) golden_.Record(Floats(op, {1}));
  for (const char* op : {"a", "b", "c.drop", "d"}) {
    target_.Record(Floats(op, {1}));
  }
  PolicySpec spec;
  spec.allow_unmatched = {"*.drop"};
  plan_.policy = *Policy::Create(spec);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.skipped_count(), 2);
  EXPECT_EQ(comparison.allowed_unmatched_count(), 2);
  EXPECT_EQ(comparison.unmatched_count(), 1);
  EXPECT_EQ(comparison.first_unmatched().op(), "d");
  EXPECT_THAT(rows_[1].reason(),
              HasSubstr("only in run g; allowed by \"*.drop\""));
}

// The target is a model inside a wrapper, so the inner modules have other
// names.
TEST_P(FindingsTest, PartsWithoutACounterpartAreNotTakenForOwnCode) {
  const std::vector<Step> plain = {
      {">root", 1}, {">root.a", 1}, {"root.a", 2}, {"root", 3}};
  const std::vector<Step> wrapped = {{">root", 1},     {">root.0", 1},
                                     {">root.0.a", 1}, {"root.0.a", 2, 1},
                                     {"root.0", 3, 1}, {"root", 3, 1}};
  for (const Step& step : plain) golden_.Record(Tensor(step, false));
  for (const Step& step : wrapped) target_.Record(Tensor(step, true));
  v1::Comparison comparison = Compare();
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_EQ(comparison.makers(0).kind(), v1::Maker::NOT_KNOWN);
  EXPECT_EQ(comparison.makers(0).note(), "parts of root have no counterpart");
  EXPECT_THAT(comparison.pairing_hints(),
              ElementsAre("--rewrite '^root\\.0\\.=>root.'"));
  EXPECT_FALSE(comparison.has_first_origin());
  v1::Matching matching;
  matching.add_rewrites()->set_regex("^root\\.0\\.");
  matching.mutable_rewrites(0)->set_replacement("root.");
  plan_.matching = *MatchRules::Create(matching);
  comparison = Compare();
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_EQ(comparison.makers(0).kind(), v1::Maker::OP);
  EXPECT_EQ(comparison.makers(0).op(), "root.a");
}

// Its functions have no other names in the target run, which calls them too.
TEST_P(FindingsTest, AnOpThatCallsNoFunctionsInTheTargetRunIsTheMaker) {
  const std::vector<Step> golden = {
      {">root", 1},   {">root.n", 1}, {">mul", 1}, {"mul", 2},    {"root.n", 3},
      {">root.m", 3}, {">mul", 3},    {"mul", 4},  {"root.m", 5}, {"root", 5}};
  const std::vector<Step> target = {
      {">root", 1},   {">root.n", 1}, {"root.n", 3, 1}, {">root.m", 3, 1},
      {">mul", 3, 1}, {"mul", 4, 1},  {"root.m", 5, 1}, {"root", 5, 1}};
  const auto record = [](const std::vector<Step>& steps, RunRecorder& run,
                         bool is_target) {
    int32_t call = -1;
    for (const Step& step : steps) {
      RecordedTensor tensor = Tensor(step, is_target);
      if (step.op == ">mul") ++call;
      if (tensor.op == "mul") tensor.call = call;
      run.Record(tensor);
    }
  };
  record(golden, golden_, false);
  record(target, target_, true);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.unmatched_count(), 2);
  EXPECT_EQ(comparison.first_divergence().op(), "root.n");
  EXPECT_EQ(MakerOf(comparison), "OP root.n 0");
  EXPECT_EQ(comparison.makers(0).note(), "only golden calls mul");
}

// An input that cannot be compared may explain the error as well.
TEST_P(FindingsTest, AnOpWithAnUnknownInputIsNotTheMaker) {
  const auto record = [](RunRecorder& run, bool is_target) {
    run.Record(Tensor({">root", 1}, is_target));
    run.Record(Tensor({">root.n", 1}, is_target));
    RecordedTensor piece = Floats("root.n", {1, 2, 3, 4});
    if (is_target) piece = Floats("root.n", {1, 2});
    piece.io = Io::kInput;
    piece.index = "1";
    run.Record(piece);
    if (!is_target) {
      run.Record(Tensor({">mul", 1}, is_target));
      run.Record(Tensor({"mul", 2}, is_target));
    }
    run.Record(Tensor({"root.n", 3, 1}, is_target));
    RecordedTensor other = Tensor({"mul", 4}, is_target);
    if (!is_target) other.call = 1;
    run.Record(other);
    run.Record(Tensor({"root", 5, 1}, is_target));
  };
  record(golden_, false);
  record(target_, true);
  RecordedTensor of_rank_1 = Tensor({"root", 5}, true);
  of_rank_1.rank = 1;
  target_.Record(of_rank_1);
  EXPECT_THAT(MakerOf(Compare()), StartsWith("NOT_KNOWN"));
}

TEST_P(FindingsTest, GoldenModelMayBeTheOneThatIsWrapped) {
  const std::vector<Step> plain = {
      {">m", 1}, {">m.a", 1}, {"m.a", 2, 1}, {"m", 3, 1}};
  const std::vector<Step> wrapped = {{">m", 1},    {">m.x", 1}, {">m.x.a", 1},
                                     {"m.x.a", 2}, {"m.x", 3},  {"m", 3}};
  for (const Step& step : wrapped) golden_.Record(Tensor(step, false));
  for (const Step& step : plain) target_.Record(Tensor(step, true));
  const v1::Comparison comparison = Compare();
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_THAT(comparison.pairing_hints(),
              ElementsAre("--rewrite '^m\\.=>m.x.'"));
}

// The runs were imported from files in the order of their names.
TEST_P(FindingsTest, WithoutAnOrderAnyFailingTensorMayBeTheFirst) {
  RunRecorder golden(store_, "unordered", {{"order", "unknown"}});
  RunRecorder target(store_, "of files", {{"order", "unknown"}});
  plan_.golden_run = "unordered";
  plan_.target_run = "of files";
  const std::vector<Step> steps = {{">a", 1}, {"a", 2, 1},  {">b", 2},
                                   {"b", 3},  {">c", 4, 1}, {"c", 5, 1}};
  for (const Step& step : steps) {
    golden.Record(Tensor(step, false));
    target.Record(Tensor(step, true));
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.fail_count(), 3);
  EXPECT_EQ(comparison.first_divergence().op(), "a");
  ASSERT_EQ(comparison.concurrent_divergences_size(), 2);
  EXPECT_EQ(comparison.concurrent_divergences(0).op(), "c");
  EXPECT_EQ(comparison.concurrent_divergences(1).op(), "c");
  EXPECT_EQ(MakerOf(comparison), "NOT_KNOWN  0");
  EXPECT_THAT(comparison.makers(0).note(), HasSubstr("unordered"));
  EXPECT_FALSE(comparison.has_first_origin());
  EXPECT_FALSE(comparison.has_input_difference());
  for (const v1::ComparisonRow& row : rows_) {
    EXPECT_EQ(row.origin(), v1::ORIGIN_UNSPECIFIED);
    EXPECT_FALSE(row.has_amplification());
  }
}

// Only the order of the golden run matters.
TEST_P(FindingsTest, ATargetWithoutAnOrderChangesNothing) {
  RunRecorder target(store_, "of files", {{"order", "unknown"}});
  plan_.target_run = "of files";
  for (const Step& step : std::vector<Step>{{">a", 1}, {"a", 2, 1}}) {
    golden_.Record(Tensor(step, false));
    target.Record(Tensor(step, true));
  }
  EXPECT_EQ(MakerOf(Compare()), "OP a 0");
}

TEST_P(FindingsTest, ManyTensorsWithoutAnOrderAreBounded) {
  RunRecorder golden(store_, "unordered", {{"order", "unknown"}});
  plan_.golden_run = "unordered";
  for (int i = 0; i < 40; ++i) {
    const Step step{"op" + std::to_string(i), static_cast<float>(i), 1};
    golden.Record(Tensor(step, false));
    target_.Record(Tensor(step, true));
  }
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(comparison.first_divergence().op(), "op0");
  EXPECT_EQ(comparison.concurrent_divergences_size(), kConcurrentMax);
}

}  // namespace
}  // namespace msitd::compare
