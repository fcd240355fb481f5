// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  // Who belongs together, `golden=target`, and why if that is said.
  std::vector<std::string> Paired(bool with_device = false) {
    const PairingSides sides{golden_, target_, with_device};
    const MatchRules rules = *MatchRules::Create(spec_);
    Partners partners(sides);
    for (const auto& pairing : PairingsOf(rules)) {
      pairing->Pair(sides, partners);
    }
    std::vector<std::string> out;
    for (size_t i = 0; i < golden_.size(); ++i) {
      const auto target = partners.TargetOf(i);
      if (!target.has_value()) continue;
      EXPECT_TRUE(partners.IsTaken(*target));
      std::string text = std::to_string(i) + "=" + std::to_string(*target);
      const std::string_view reason = partners.ReasonOf(i);
      if (!reason.empty()) text.append(": ").append(reason);
      out.push_back(std::move(text));
    }
    return out;
  }

  std::vector<LogicalTensor> golden_;
  std::vector<LogicalTensor> target_;
  v1::Matching spec_;
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

TEST_F(PairingTest, EmptySidesHaveNoPairs) {
  EXPECT_THAT(Paired(), IsEmpty());
  target_ = {At("a")};
  EXPECT_THAT(Paired(), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare
