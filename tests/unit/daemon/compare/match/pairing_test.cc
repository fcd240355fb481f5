// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

LogicalTensor At(std::string op, int32_t call = 0, std::string device = "d") {
  LogicalTensor out;
  out.key.op = std::move(op);
  out.key.call = call;
  out.key.io = Io::kOutput;
  out.key.index = "0";
  out.key.device = std::move(device);
  out.shape = {2};
  return out;
}

class PairingTest : public ::testing::Test {
 protected:
  // Returns the pairs as `golden=target`, with the reason if there is one.
  std::vector<std::string> Paired(bool with_device = false) {
    const PairingSides sides{golden_, target_, with_device};
    MatchRules rules = *MatchRules::Create(spec_);
    if (backward_order_) rules.UseBackwardOrder();
    TensorMapping mapping;
    for (const MappedPair& pair : mapped_) {
      EXPECT_TRUE(mapping.Add(pair).ok());
    }
    if (spec_.has_mapping()) {
      rules.UseMapping(std::make_shared<const TensorMapping>(mapping));
    }
    Partners partners(sides);
    for (const auto& pairing : PairingsOf(rules)) {
      pairing->Pair(sides, partners);
    }
    std::vector<std::string> out;
    for (size_t i = 0; i < golden_.size(); ++i) {
      auto target = partners.TargetOf(i);
      if (!target.has_value()) Leave("golden", i, partners.WhyGoldenIsLeft(i));
      for (; target.has_value(); target = partners.NextTarget(*target)) {
        EXPECT_TRUE(partners.IsTaken(*target));
        std::string text = std::to_string(i) + "=" + std::to_string(*target);
        const std::string_view reason = partners.BondOf(*target).reason;
        if (!reason.empty()) text.append(": ").append(reason);
        out.push_back(std::move(text));
      }
    }
    for (size_t i = 0; i < target_.size(); ++i) {
      if (partners.IsTaken(i)) continue;
      Leave("target", i, partners.WhyTargetIsLeft(i));
    }
    return out;
  }

  // Adds a pair of tensors, or of whole ops, to the mapping.
  void Map(MappedTensor target, MappedTensor golden) {
    auto& mapping = *spec_.mutable_mapping();
    mapping.set_side(v1::Matching::Mapping::TARGET);
    mapping.set_attachment("m");
    const int line = static_cast<int>(mapped_.size()) + 1;
    mapped_.push_back({std::move(target), std::move(golden),
                       "line " + std::to_string(line), line});
  }

  void Leave(const std::string& side, size_t number, const Bond& why) {
    if (why.reason.empty()) return;
    left_.push_back(side + " " + std::to_string(number) + ": " +
                    std::string(why.reason) +
                    (why.mapped_pair.has_value() ? ", as it should be" : ""));
  }

  std::vector<LogicalTensor> golden_;
  std::vector<LogicalTensor> target_;
  v1::Matching spec_;
  bool backward_order_ = false;
  std::vector<MappedPair> mapped_;
  std::vector<std::string> left_;  // Unpaired tensors with reasons.
};

TEST_F(PairingTest, EqualNamesBelongTogetherInAnyOrder) {
  golden_ = {At("a"), At("b"), At("b", 1), At("c")};
  target_ = {At("b", 1), At("a"), At("d"), At("b")};
  EXPECT_THAT(Paired(), ElementsAre("0=1", "1=3", "2=0"));
  target_ = golden_;
  EXPECT_THAT(Paired(), ElementsAre("0=0", "1=1", "2=2", "3=3"));
}

TEST_F(PairingTest, DevicesCountIfTheyAreTo) {
  golden_ = {At("a", 0, "x"), At("a", 0, "y")};
  target_ = {At("a", 0, "y"), At("a", 0, "z")};
  EXPECT_THAT(Paired(/*with_device=*/true), ElementsAre("1=0"));
  EXPECT_THAT(Paired(/*with_device=*/false), ElementsAre("0=0", "1=1"));
}

TEST_F(PairingTest, RulesMakeGoldenNames) {
  auto& rewrite = *spec_.add_rewrites();
  rewrite.set_regex("^model\\.");
  auto& pair = *spec_.add_ops();
  pair.set_golden_op("head");
  pair.set_target_op("Conv_7");
  golden_ = {At("a"), At("head")};
  target_ = {At("Conv_7"), At("model.a"), At("head")};
  EXPECT_THAT(Paired(), ElementsAre("0=1", "1=0"));
}

LogicalTensor Gradient(Io io, int32_t call, std::string op = "a") {
  LogicalTensor out = At(std::move(op), call);
  out.key.io = io;
  return out;
}

// The golden model has no recomputation, and the target has. Forward calls are
// repeated, and backward records have the numbers of the repeated calls.
TEST_F(PairingTest, BackwardCallsArePairedInTheirOrderIfAskedFor) {
  constexpr Io kIn = Io::kGradInput;
  constexpr Io kOut = Io::kGradOutput;
  golden_ = {At("a", 0),           At("a", 1),        Gradient(kOut, 1),
             Gradient(kIn, 1),     Gradient(kOut, 0), Gradient(kIn, 0),
             Gradient(kIn, 0, "b")};
  target_ = {At("a", 0),        At("a", 1),       At("a", 2),
             Gradient(kOut, 2), Gradient(kIn, 2), At("a", 3),
             Gradient(kOut, 3), Gradient(kIn, 3), Gradient(kIn, 0, "b")};
  EXPECT_THAT(Paired(), ElementsAre("0=0", "1=1", "6=8"));
  backward_order_ = true;
  constexpr char kWhy[] = ": the same place among the backward calls of its op";
  const auto with = [&](std::string pair) { return pair + kWhy; };
  EXPECT_THAT(Paired(), ElementsAre("0=0", "1=1", with("2=3"), with("3=4"),
                                    with("4=6"), with("5=7"), "6=8"));
}

// Equal calls may be listed in a different order.
TEST_F(PairingTest, BackwardCallsWithEqualNumbersArePairedByThem) {
  golden_ = {Gradient(Io::kGradOutput, 1), Gradient(Io::kGradInput, 1),
             Gradient(Io::kGradOutput, 0), Gradient(Io::kGradInput, 0)};
  target_ = {Gradient(Io::kGradOutput, 0), Gradient(Io::kGradInput, 0),
             Gradient(Io::kGradOutput, 1), Gradient(Io::kGradInput, 1)};
  backward_order_ = true;
  EXPECT_THAT(Paired(), ElementsAre("0=2", "1=3", "2=0", "3=1"));
  Map({"a"}, {"a"});
  EXPECT_THAT(Paired(), ElementsAre("0=2: line 1", "1=3: line 1", "2=0: line 1",
                                    "3=1: line 1"));
}

TEST_F(PairingTest, ABackwardCallThatOneRunLacksIsAlone) {
  constexpr Io kIn = Io::kGradInput;
  const std::vector<LogicalTensor> all = {Gradient(kIn, 3), Gradient(kIn, 2),
                                          Gradient(kIn, 1), Gradient(kIn, 0)};
  const std::vector<LogicalTensor> some = {Gradient(kIn, 3), Gradient(kIn, 2),
                                           Gradient(kIn, 0)};
  backward_order_ = true;
  golden_ = all;
  target_ = some;
  EXPECT_THAT(Paired(), ElementsAre("0=0", "1=1", "3=2"));
  golden_ = some;
  target_ = all;
  EXPECT_THAT(Paired(), ElementsAre("0=0", "1=1", "2=3"));
  Map({"a"}, {"a"});
  EXPECT_THAT(Paired(),
              ElementsAre("0=0: line 1", "1=1: line 1", "2=3: line 1"));
}

// Names of the target are rewritten before they are compared.
TEST_F(PairingTest, NumbersOfBackwardCallsAreComparedUnderGoldenNames) {
  spec_.add_rewrites()->set_regex("^model\\.");
  golden_ = {Gradient(Io::kGradInput, 1), Gradient(Io::kGradInput, 0)};
  target_ = {Gradient(Io::kGradInput, 0, "model.a"),
             Gradient(Io::kGradInput, 1, "model.a")};
  backward_order_ = true;
  EXPECT_THAT(Paired(), ElementsAre("0=1", "1=0"));
}

TEST_F(PairingTest, GradientsOfParametersHaveNumbersOfTheirOwn) {
  golden_ = {Gradient(Io::kGradWeight, 1)};
  target_ = {Gradient(Io::kGradWeight, 0), Gradient(Io::kGradWeight, 1)};
  backward_order_ = true;
  EXPECT_THAT(Paired(), ElementsAre("0=1"));
}

TEST_F(PairingTest, ALineWithoutACallHasBackwardCallsInTheirOrder) {
  Map({"cell"}, {"module"});
  Map({"cell", 7, Io::kGradInput, "0"}, {"module", 1, Io::kGradInput, "0"});
  golden_ = {Gradient(Io::kGradInput, 1, "module"),
             Gradient(Io::kGradInput, 0, "module")};
  target_ = {Gradient(Io::kGradInput, 7, "cell"),
             Gradient(Io::kGradInput, 5, "cell")};
  backward_order_ = true;
  EXPECT_THAT(Paired(), ElementsAre("0=0: line 2", "1=1: line 1"));
}

// Golden tensors that are seen as a line of the mapping states.
TEST_F(PairingTest, ViewsOfAMappingKeepTheDevice) {
  const MappedTensor output = {"q", {}, Io::kOutput, "0"};
  const MappedTensor fused = {"qkv", {}, Io::kOutput, "0"};
  Map(output, fused);
  mapped_.back().golden_view = "flatten";
  golden_ = {At("qkv", 0, "x"), At("qkv", 0, "y"), At("qkv", 0, "x"),
             At("qkv", 0, "y")};
  golden_[2].mapped_pair = golden_[3].mapped_pair = 0;
  target_ = {At("q", 0, "y"), At("q", 0, "x")};
  for (LogicalTensor& target : target_) target.mapped_pair = 0;
  EXPECT_THAT(Paired(/*with_device=*/true),
              ElementsAre("2=1: line 1", "3=0: line 1"));
  EXPECT_THAT(Paired(/*with_device=*/false),
              ElementsAre("2=0: line 1", "3=1: line 1"));
  target_ = {At("q", 0, "z")};
  target_[0].mapped_pair = 0;
  EXPECT_THAT(Paired(/*with_device=*/true), IsEmpty());
}

// Two lines see the same target, whose golden tensors are on two devices.
TEST_F(PairingTest, EveryLineOfATargetBeginsWithTheFirstDevice) {
  Map({"qkv", {}, Io::kOutput, "0"}, {"q", {}, Io::kOutput, "0"});
  mapped_.back().target_view = "flatten";
  Map({"qkv", {}, Io::kOutput, "0"}, {"k", {}, Io::kOutput, "0"});
  mapped_.back().target_view = "flatten";
  golden_ = {At("q", 0, "x"), At("q", 0, "y"), At("k", 0, "x"),
             At("k", 0, "y")};
  target_ = {At("qkv"), At("qkv")};
  target_[0].mapped_pair = 0;
  target_[1].mapped_pair = 1;
  EXPECT_THAT(Paired(), ElementsAre("0=0: line 1", "2=1: line 2"));
}

TEST_F(PairingTest, GoldenViewsNeedACallIfBackwardCallsAreInTheirOrder) {
  Map({"cell", {}, Io::kGradInput, "0"}, {"module", {}, Io::kGradInput, "0"});
  mapped_.back().golden_view = "flatten";
  golden_ = {Gradient(Io::kGradInput, 1, "module"),
             Gradient(Io::kGradInput, 0, "module"),
             Gradient(Io::kGradInput, 1, "module")};
  golden_[2].mapped_pair = 0;
  target_ = {Gradient(Io::kGradInput, 1, "cell"),
             Gradient(Io::kGradInput, 2, "cell")};
  for (LogicalTensor& target : target_) target.mapped_pair = 0;
  backward_order_ = true;
  EXPECT_THAT(Paired(), IsEmpty());
  EXPECT_THAT(left_, Contains(AllOf(StartsWith("target 0: backward calls"),
                                    HasSubstr("needs the call number"))));
}

TEST(MatchRulesTest, LooseNameHasNoWrappers) {
  EXPECT_EQ(MatchRules::LooseName("root.base_model.model.layers.0.q_proj"),
            "layers.0.q_proj");
  EXPECT_EQ(MatchRules::LooseName("root.module.model.Layers:0"),
            "model.layers.0");
  EXPECT_EQ(MatchRules::LooseName("root.base_model.model.model.norm"),
            "model.norm");
  EXPECT_EQ(MatchRules::LooseName("root.base_model"), "");
}

TEST_F(PairingTest, WhatIsLeftOverIsPairedByLikenessIfAskedFor) {
  golden_ = {At("a"), At("layer.0"), At("b")};
  target_ = {At("a", 1), At("module.Layer/0"), At("b")};
  EXPECT_THAT(Paired(), ElementsAre("2=2"));
  spec_.set_fuzzy(true);
  EXPECT_THAT(
      Paired(),
      ElementsAre("0=0: the same op, at another call",
                  "1=1: the same op, but for wrappers, case and separators",
                  "2=2"));
  target_[0].shape = {3};
  EXPECT_THAT(
      Paired(),
      ElementsAre("1=1: the same op, but for wrappers, case and separators",
                  "2=2"));
}

TEST_F(PairingTest, NobodyIsTakenTwice) {
  spec_.set_fuzzy(true);
  golden_ = {At("a"), At("a", 1), At("a", 2)};
  target_ = {At("a", 2), At("a", 5)};
  EXPECT_THAT(Paired(),
              ElementsAre("0=1: the same op, at another call", "2=0"));
}

MappedTensor Output(std::string op, std::optional<int32_t> call = {}) {
  return {std::move(op), call, Io::kOutput, "0"};
}

TEST_F(PairingTest, MappingPairsNothingButWhatItNames) {
  Map(Output("Conv_1"), Output("conv"));
  golden_ = {At("conv"), At("same")};
  target_ = {At("same"), At("Conv_1")};
  EXPECT_THAT(Paired(), ElementsAre("0=1: line 1"));
  EXPECT_THAT(left_, ElementsAre("golden 1: not in the mapping",
                                 "target 0: not in the mapping"));
  left_.clear();
  spec_.mutable_mapping()->set_pair_others(true);
  EXPECT_THAT(Paired(), ElementsAre("0=1: line 1", "1=0"));
  EXPECT_THAT(left_, IsEmpty());
}

TEST_F(PairingTest, WhatTheMappingNamesIsNotPairedByItsName) {
  Map(Output("X"), Output("a"));
  Map(Output("b"), Output("gone"));
  spec_.mutable_mapping()->set_pair_others(true);
  spec_.set_fuzzy(true);
  golden_ = {At("a"), At("b"), At("c")};
  target_ = {At("a"), At("b"), At("c")};
  EXPECT_THAT(Paired(), ElementsAre("2=2"));
  EXPECT_THAT(
      left_,
      ElementsAre("golden 0: what the mapping pairs it with is not there",
                  "target 1: what the mapping pairs it with is not there"));
}

TEST_F(PairingTest, MappedGoldenTensorMayHaveSeveralTargets) {
  Map(Output("a1"), Output("a"));
  Map(Output("a2"), Output("a"));
  golden_ = {At("a"), At("b")};
  target_ = {At("a2"), At("a1"), At("b")};
  EXPECT_THAT(Paired(), ElementsAre("0=0: line 2", "0=1: line 1"));
}

TEST_F(PairingTest, WhatTheMappingPairsItWithMayBeMissing) {
  Map(Output("a1"), Output("a"));
  Map(Output("b1"), Output("b"));
  golden_ = {At("a")};
  target_ = {At("b1")};
  EXPECT_THAT(Paired(), IsEmpty());
  EXPECT_THAT(
      left_,
      ElementsAre("golden 0: what the mapping pairs it with is not there",
                  "target 0: what the mapping pairs it with is not there"));
}

TEST_F(PairingTest, WholeOpsArePairedByIoAndIndexAndCall) {
  Map({"T"}, {"g"});
  golden_ = {At("g"), At("g", 1), At("g", 2)};
  golden_[2].key.io = Io::kInput;
  golden_[2].key.call = 0;
  target_ = {At("T", 1), At("T"), At("T")};
  target_[2].key.io = Io::kInput;
  EXPECT_THAT(Paired(),
              ElementsAre("0=1: line 1", "1=0: line 1", "2=2: line 1"));
}

TEST_F(PairingTest, LineThatSaysMostCounts) {
  Map({"T"}, {"whole"});
  Map({"T", 1}, {"at_call"});
  Map(Output("T"), Output("tensor"));
  Map(Output("T", 1), Output("tensor_at_call"));
  golden_ = {At("whole"),    At("at_call", 1),
             At("tensor"),   At("tensor_at_call", 1),
             At("whole", 1), At("tensor", 1)};
  target_ = {At("T"), At("T", 1), At("T"), At("T", 1)};
  target_[2].key.io = target_[3].key.io = Io::kInput;
  golden_[0].key.io = golden_[1].key.io = Io::kInput;
  EXPECT_THAT(Paired(), ElementsAre("0=2: line 1", "1=3: line 2", "2=0: line 3",
                                    "3=1: line 4"));
}

TEST_F(PairingTest, OneSideMayNameTheCallOfBoth) {
  Map(Output("T", 3), Output("g"));
  golden_ = {At("g"), At("g", 3)};
  target_ = {At("T"), At("T", 3)};
  EXPECT_THAT(Paired(), ElementsAre("1=1: line 1"));
}

TEST_F(PairingTest, MappedCallsMayDiffer) {
  Map(Output("T", 3), Output("g", 0));
  golden_ = {At("g")};
  target_ = {At("T"), At("T", 3)};
  EXPECT_THAT(Paired(), ElementsAre("0=1: line 1"));
}

TEST_F(PairingTest, MappingSaysWhoBelongsToNobody) {
  Map({.op = "T"}, {});
  Map({}, {.op = "a"});
  Map(Output("T", 1), Output("a", 1));
  golden_ = {At("a"), At("a", 1), At("b")};
  target_ = {At("T"), At("T", 1), At("U")};
  EXPECT_THAT(Paired(), ElementsAre("1=1: line 3"));
  EXPECT_THAT(left_, ElementsAre("golden 0: line 2, as it should be",
                                 "golden 2: not in the mapping",
                                 "target 0: line 1, as it should be",
                                 "target 2: not in the mapping"));
}

TEST_F(PairingTest, MappedTensorsStayOnTheirDevices) {
  Map(Output("T"), Output("g"));
  golden_ = {At("g", 0, "x"), At("g", 0, "y")};
  target_ = {At("T", 0, "y"), At("T", 0, "x"), At("T", 0, "z")};
  EXPECT_THAT(Paired(/*with_device=*/true),
              ElementsAre("0=1: line 1", "1=0: line 1"));
}

TEST_F(PairingTest, EmptySidesHaveNoPairs) {
  EXPECT_THAT(Paired(), IsEmpty());
  target_ = {At("a")};
  EXPECT_THAT(Paired(), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare
