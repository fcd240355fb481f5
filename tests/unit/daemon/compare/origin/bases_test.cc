// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/bases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/order_label.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A tensor in both runs. The golden values are around `value`, and the relative
// error of the target is `error`.
struct Moment {
  std::string op;
  Io io = Io::kOutput;
  float value = 1;
  float error = 0;
  DType golden = DType::kFloat32;
  DType target = DType::kFloat32;
  std::string index = "0";
};

constexpr DType kWide = DType::kFloat32;
constexpr DType kNarrow = DType::kBfloat16;

class BasesTest : public ::testing::Test {
 protected:
  // Compares the steps of one rank and token in this order.
  void Compare(const std::vector<Moment>& steps) {
    for (const Moment& step : steps) {
      golden_.Record(Tensor(step, step.golden, 0));
      target_.Record(Tensor(step, step.target, step.error));
    }
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const v1::ComparisonRow& row : observer.rows) {
      rows_[row.op() + (row.io() == v1::IO_INPUT    ? ">"
                        : row.io() == v1::IO_WEIGHT ? "#"
                                                    : "")] = row;
    }
    comparison_ = observer.comparison;
  }

  static RecordedTensor Tensor(const Moment& step, DType dtype, float error) {
    const std::vector<float> values = {step.value * (1 + error), step.value * 2,
                                       step.value * -0.5F, step.value * 1.5F};
    RecordedTensor out =
        dtype == kNarrow ? Bfloats(step.op, values) : Floats(step.op, values);
    out.io = step.io;
    out.index = step.index;
    return out;
  }

  v1::Verdict VerdictOf(const std::string& name) {
    return rows_.at(name).verdict();
  }
  std::string ReasonOf(const std::string& name) {
    return rows_.at(name).reason();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
  std::map<std::string, v1::ComparisonRow> rows_;
  v1::Comparison comparison_;
};

TEST_F(BasesTest, WideResultOfNarrowValuesIsJudgedAsTheseAre) {
  Compare({{"head", Io::kInput, 1, 0, kNarrow, kNarrow},
           {"head", Io::kOutput, 4, 0.03F, kNarrow, kNarrow},
           {"root", Io::kOutput, 4.1F, 0.01F}});
  EXPECT_EQ(VerdictOf("root"), v1::PASS);
  EXPECT_EQ(ReasonOf("root"),
            "judged as bfloat16: computed from head@output/0");
}

TEST_F(BasesTest, NarrowValuesOfOneRunAreEnough) {
  Compare({{"head", Io::kOutput, 4, 0.01F, kWide, kNarrow},
           {"root", Io::kOutput, 4.1F, 0.01F}});
  EXPECT_EQ(VerdictOf("root"), v1::PASS);
}

TEST_F(BasesTest, WideValuesAloneAreJudgedAsWide) {
  Compare(
      {{"head", Io::kOutput, 4, 0.001F}, {"root", Io::kOutput, 4.1F, 0.001F}});
  EXPECT_EQ(VerdictOf("head"), v1::FAIL);
  EXPECT_EQ(VerdictOf("root"), v1::FAIL);
  EXPECT_THAT(ReasonOf("root"), Not(HasSubstr("judged as")));
}

TEST_F(BasesTest, EqualNarrowValueRoundsNothingBehindIt) {
  // A mask of a narrow dtype is added to wide scores.
  Compare({{"add", Io::kInput, 7, 0, kNarrow, kNarrow},
           {"add", Io::kInput, 3, 0.0001F, kWide, kWide, "1"},
           {"add", Io::kOutput, 4, 0.001F}});
  EXPECT_EQ(VerdictOf("add"), v1::FAIL);
  EXPECT_THAT(ReasonOf("add"), Not(HasSubstr("judged as")));
}

TEST_F(BasesTest, OpThatIsGivenNarrowValuesAloneComputesInThem) {
  Compare({{"head", Io::kInput, 1, 0, kNarrow, kNarrow},
           {"head", Io::kOutput, 4, 0.005F}});
  EXPECT_EQ(VerdictOf("head"), v1::PASS);
  EXPECT_EQ(ReasonOf("head"), "judged as bfloat16: computed from head@input/0");
}

TEST_F(BasesTest, TensorThatWasThereBeforeTheNarrowOnesStaysWide) {
  // `late` receives the same tensor that `early` produced.
  Compare({{"early", Io::kOutput, 3, 0.001F},
           {"narrow", Io::kOutput, 5, 0.01F, kNarrow, kNarrow},
           {"late", Io::kInput, 3, 0.001F},
           {"late", Io::kOutput, 9, 0.001F}});
  EXPECT_EQ(VerdictOf("late>"), v1::FAIL);
  EXPECT_EQ(VerdictOf("late"), v1::FAIL);
}

TEST_F(BasesTest, BasisGoesThroughModulesAndTheirParts) {
  Compare({{"block", Io::kInput, 1, 0},
           {"block.up", Io::kInput, 1, 0},
           {"block.up", Io::kOutput, 2, 0.01F, kNarrow, kNarrow},
           {"block.norm", Io::kInput, 2.5F, 0.01F},
           {"block.norm", Io::kOutput, 1.5F, 0.01F},
           {"block", Io::kOutput, 3, 0.01F},
           {"next", Io::kInput, 3.5F, 0.01F},
           {"next", Io::kOutput, 6, 0.01F}});
  for (const char* name :
       {"block.norm>", "block.norm", "block", "next>", "next"}) {
    EXPECT_EQ(VerdictOf(name), v1::PASS) << name << ": " << ReasonOf(name);
  }
}

TEST_F(BasesTest, FaultBehindNarrowValuesIsStillFoundAndNotBlamedOnThem) {
  Compare({{"embed", Io::kOutput, 1, 0.003F, kWide, kNarrow},
           {"o_proj", Io::kInput, 1, 0.003F, kWide, kNarrow},
           {"o_proj", Io::kOutput, 2, 2, kWide, kNarrow},
           {"root", Io::kOutput, 2.5F, 2}});
  EXPECT_EQ(VerdictOf("o_proj"), v1::FAIL);
  EXPECT_EQ(VerdictOf("root"), v1::FAIL);
  ASSERT_EQ(comparison_.makers_size(), 1);
  EXPECT_EQ(comparison_.makers(0).op(), "o_proj");
}

TEST_F(BasesTest, ParameterOfALaterStepCarriesWhatItsGradientsDo) {
  const std::vector<Moment> moments = {
      {"fc", Io::kWeight, 1, 0.001F},
      {"frozen", Io::kWeight, 3, 0.001F},
      {"fc", Io::kInput, 1, 0},
      {"fc", Io::kOutput, 2, 0.01F, kNarrow, kNarrow},
      {"fc", Io::kGradOutput, 4, 0.01F, kNarrow, kNarrow},
      {"fc", Io::kGradWeight, 5, 0.01F}};
  for (const int64_t token : {0, 1}) {
    for (const Moment& moment : moments) {
      RecordedTensor golden = Tensor(moment, moment.golden, 0);
      RecordedTensor target = Tensor(moment, moment.target, moment.error);
      golden.token = target.token = token;
      golden.op = target.op = moment.op + std::to_string(token);
      golden_.Record(golden);
      target_.Record(target);
    }
  }
  Compare({});
  // The initial weights of a run were not computed from narrow values.
  EXPECT_EQ(VerdictOf("fc0#"), v1::FAIL);
  EXPECT_EQ(VerdictOf("fc1#"), v1::PASS) << ReasonOf("fc1#");
  EXPECT_EQ(VerdictOf("frozen1#"), v1::FAIL);
}

TEST_F(BasesTest, GradientCarriesWhatItsForwardPassReceived) {
  // A loss in a wide type, of narrow logits.
  Compare({{"head", Io::kOutput, 4, 0.01F, kWide, kNarrow},
           {"loss", Io::kInput, 4, 0.01F},
           {"loss", Io::kOutput, 3, 0.001F},
           {"loss", Io::kGradOutput, 1, 0},
           {"loss", Io::kGradInput, 7, 0.01F}});
  EXPECT_EQ(VerdictOf("loss"), v1::PASS) << ReasonOf("loss");
  EXPECT_THAT(ReasonOf("loss"), HasSubstr("judged as bfloat16"));
}

TEST_F(BasesTest, GradientOfAWideForwardPassIsJudgedAsWide) {
  Compare({{"head", Io::kOutput, 4, 0.01F, kWide, kNarrow},
           {"loss", Io::kInput, 5, 0},
           {"loss", Io::kOutput, 3, 0},
           {"loss", Io::kGradOutput, 1, 0},
           {"loss", Io::kGradInput, 7, 0.01F}});
  EXPECT_EQ(VerdictOf("loss"), v1::FAIL);
}

TEST_F(BasesTest, StateBehindAGradientCarriesWhatTheGradientDoes) {
  Compare({{"fc", Io::kGradOutput, 4, 0.01F, kNarrow, kNarrow},
           {"fc", Io::kGradWeight, 5, 0.01F},
           {"fc", Io::kState, 5, 0.01F, kWide, kWide, "weight.grad"}});
  // The last row of the op is that of its state.
  EXPECT_EQ(rows_.at("fc").io(), v1::IO_STATE);
  EXPECT_EQ(VerdictOf("fc"), v1::PASS) << ReasonOf("fc");
  EXPECT_THAT(ReasonOf("fc"), HasSubstr("judged as bfloat16"));
}

TEST_F(BasesTest, StateBeforeAGradientIsItsOwn) {
  Compare({{"fc", Io::kGradOutput, 4, 0.01F, kNarrow, kNarrow},
           {"late", Io::kState, 5, 0.01F, kWide, kWide, "weight"},
           {"other", Io::kGradWeight, 5, 0.01F}});
  EXPECT_EQ(VerdictOf("late"), v1::FAIL);
}

TEST_F(BasesTest, WhatComesFromEarlierTokensWasComputedAsTheyWere) {
  const std::vector<Moment> moments = {
      {"choose", Io::kInput, 4, 0.01F},
      {"head", Io::kInput, 1, 0.01F, kNarrow, kNarrow},
      {"head", Io::kOutput, 2, 0.01F, kNarrow, kNarrow}};
  for (const Moment& moment : moments) {
    for (const int64_t token : {0, 1}) {
      RecordedTensor golden = Tensor(moment, moment.golden, 0);
      RecordedTensor target = Tensor(moment, moment.target, moment.error);
      golden.token = target.token = token;
      golden.op = target.op = moment.op + std::to_string(token);
      golden_.Record(golden);
      target_.Record(target);
    }
  }
  Compare({});
  EXPECT_EQ(VerdictOf("choose0>"), v1::FAIL);
  EXPECT_EQ(VerdictOf("choose1>"), v1::PASS) << ReasonOf("choose1>");
}

TEST_F(BasesTest, RunsMayBeEqualUpToALaterToken) {
  for (const int64_t token : {0, 1, 2}) {
    const float error = token == 0 ? 0 : 0.01F;
    // All of it differs from token 1 on; token 1 begins with equal inputs.
    const std::vector<Moment> moments = {
        {"choose", Io::kInput, 4, token == 2 ? error : 0},
        {"head", Io::kInput, 1, error, kNarrow, kNarrow},
        {"head", Io::kOutput, 2, error, kNarrow, kNarrow},
        {"wide", Io::kInput, 2, error}};
    for (const Moment& moment : moments) {
      RecordedTensor golden = Tensor(moment, moment.golden, 0);
      RecordedTensor target = Tensor(moment, moment.target, moment.error);
      golden.token = target.token = token;
      golden.op = target.op = moment.op + std::to_string(token);
      golden_.Record(golden);
      target_.Record(target);
    }
  }
  Compare({});
  EXPECT_EQ(VerdictOf("wide1>"), v1::PASS) << ReasonOf("wide1>");
  EXPECT_EQ(VerdictOf("choose2>"), v1::PASS) << ReasonOf("choose2>");
}

// Returns the steps of an op inside a module, with an error of 4 % in bfloat16.
std::vector<Moment> OneOp(float input_error) {
  return {{"m", Io::kInput, 1, 0, kNarrow, kNarrow},
          {"m.op", Io::kInput, 1.5F, input_error, kNarrow, kNarrow},
          {"m.op", Io::kOutput, 2, 0.1F, kNarrow, kNarrow},
          {"m", Io::kOutput, 2, 0.1F, kNarrow, kNarrow}};
}

TEST_F(BasesTest, OneOpMustBeMoreExactThanANetwork) {
  Compare(OneOp(0));
  EXPECT_EQ(VerdictOf("m.op"), v1::FAIL);
  EXPECT_THAT(ReasonOf("m.op"), HasSubstr("its inputs are equal bit for bit"));
  EXPECT_EQ(VerdictOf("m"), v1::PASS);
}

TEST_F(BasesTest, NetworkMayAddUpWhatOneOpMayNot) {
  Compare(OneOp(0.03F));
  EXPECT_EQ(VerdictOf("m.op"), v1::PASS) << ReasonOf("m.op");
}

TEST_F(BasesTest, ModuleWithoutPartsOnRecordMayBeANetwork) {
  Compare({{"m", Io::kInput, 1, 0, kNarrow, kNarrow},
           {"m", Io::kOutput, 2, 0.1F, kNarrow, kNarrow}});
  EXPECT_EQ(VerdictOf("m"), v1::PASS) << ReasonOf("m");
}

TEST_F(BasesTest, FilterOfOpsHidesWhatAnOpIsMadeOf) {
  plan_.selector.op_patterns = {"m*"};
  Compare(OneOp(0));
  EXPECT_EQ(VerdictOf("m.op"), v1::PASS) << ReasonOf("m.op");
}

TEST_F(BasesTest, InputOfOneRunAloneIsNoEqualInput) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Tensor({"m", Io::kInput, 1, 0, kNarrow, kNarrow}, kNarrow, 0));
    run->Record(
        Tensor({"m.op", Io::kInput, 2, 0, kNarrow, kNarrow}, kNarrow, 0));
    if (run == &target_) {
      run->Record(Tensor({"m.op", Io::kInput, 3, 0, kNarrow, kNarrow, "1"},
                         kNarrow, 0));
    }
    const float error = run == &target_ ? 0.1F : 0;
    run->Record(
        Tensor({"m.op", Io::kOutput, 2, 0, kNarrow, kNarrow}, kNarrow, error));
    run->Record(Tensor({"m", Io::kOutput, 7, 0, kNarrow, kNarrow}, kNarrow, 0));
  }
  Compare({});
  EXPECT_EQ(VerdictOf("m.op"), v1::PASS) << ReasonOf("m.op");
}

TEST_F(BasesTest, TensorOfOneRunAloneRoundsNothing) {
  golden_.Record(
      Tensor({"cast", Io::kOutput, 9, 0, kNarrow, kNarrow}, kNarrow, 0));
  Compare({{"op", Io::kOutput, 2, 0.001F}});
  EXPECT_EQ(VerdictOf("op"), v1::FAIL);
}

TEST_F(BasesTest, CastInASinglePlaceExcusesNothing) {
  std::vector<Moment> moments = {
      {"cast", Io::kOutput, 4, 0.01F, kWide, kNarrow},
      {"next", Io::kInput, 4, 0.01F, kWide, kNarrow},
      {"next", Io::kOutput, 4.1F, 0.01F}};
  for (int i = 0; i < 30; ++i) {
    const float value = static_cast<float>(i) + 10;
    moments.push_back({"op" + std::to_string(i), Io::kOutput, value});
  }
  Compare(moments);
  EXPECT_EQ(VerdictOf("cast"), v1::PASS);
  EXPECT_EQ(VerdictOf("next"), v1::FAIL);
  ASSERT_EQ(comparison_.makers_size(), 1);
  EXPECT_EQ(comparison_.makers(0).op(), "cast");
}

TEST_F(BasesTest, RulesOfTheUserAskWhatTheyAsk) {
  PolicySpec spec;
  spec.rules = {{"root", "nl2 <= 1e-6"}};
  plan_.policy = *Policy::Create(spec);
  Compare({{"head", Io::kOutput, 4, 0.01F, kNarrow, kNarrow},
           {"root", Io::kOutput, 4.1F, 0.001F}});
  EXPECT_EQ(VerdictOf("root"), v1::FAIL);
  EXPECT_THAT(ReasonOf("root"), Not(HasSubstr("judged as")));
}

// Code that has received equal tensors only can have read a difference from its
// cache. It can have stored there what it has received before.
TEST_F(BasesTest, CodeReadsRoundedTensorsFromItsState) {
  for (const std::string past : {"none", "m.key", "other.key"}) {
    RunRecorder golden(store_, "g" + past);
    RunRecorder target(store_, "t" + past);
    plan_.golden_run = "g" + past;
    plan_.target_run = "t" + past;
    for (const bool is_target : {false, true}) {
      RunRecorder& run = is_target ? target : golden;
      for (const std::string op : {"m", "other"}) {
        const std::string key = op + ".key";
        run.Record(Tensor({op, Io::kInput, 2}, kWide, 0));
        run.Record(Tensor({key, Io::kOutput, 3, 0, kNarrow, kNarrow}, kNarrow,
                          is_target && key == past ? 0.01F : 0));
      }
      for (const Moment& step :
           {Moment{"m", Io::kInput, 5}, Moment{"m.cat", Io::kInput, 6, 0.001F},
            Moment{"m", Io::kOutput, 7}}) {
        RecordedTensor tensor = Tensor(step, kWide, is_target ? step.error : 0);
        tensor.token = 1;
        run.Record(tensor);
      }
    }
    Compare({});
    const bool has_cache = past == "m.key";
    EXPECT_EQ(VerdictOf("m.cat>"), has_cache ? v1::PASS : v1::FAIL) << past;
    if (has_cache) {
      EXPECT_EQ(ReasonOf("m.cat>"),
                "judged as bfloat16: computed from an earlier token");
    }
  }
}

TEST_F(BasesTest, ChosenIntegersStayExact) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Tensor({"scores", Io::kOutput, 1, 0, kNarrow, kNarrow}, kNarrow,
                       run == &target_ ? 0.01F : 0));
    RecordedTensor chosen;
    chosen.op = "topk";
    chosen.dtype = DType::kInt64;
    chosen.bytes = BytesOf<int64_t>({run == &target_ ? 1 : 2, 5});
    chosen.shape = {2};
    run->Record(chosen);
  }
  Compare({});
  EXPECT_EQ(VerdictOf("topk"), v1::FAIL);
}

TEST_F(BasesTest, WithoutAnOrderNothingIsComputedFromAnything) {
  RunRecorder golden(store_, "unordered",
                     {{kOrderLabel, std::string(kUnknownOrder)}});
  plan_.golden_run = "unordered";
  for (const Moment& step :
       {Moment{"head", Io::kOutput, 4, 0.01F, kNarrow, kNarrow},
        Moment{"root", Io::kOutput, 4.1F, 0.001F}}) {
    golden.Record(Tensor(step, step.golden, 0));
    target_.Record(Tensor(step, step.target, step.error));
  }
  Compare({});
  EXPECT_EQ(VerdictOf("root"), v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
