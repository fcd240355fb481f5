// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/call_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// A call as a program makes it: its tensors have one shape, and bytes that are
// different for each origin, unless this is 0.
struct MadeCall {
  std::string op;
  std::vector<int64_t> shape = {2};
  uint64_t origin = 0;
  DType dtype = DType::kFloat32;
};

// Records calls as one run does, numbered by op.
class Program {
 public:
  void Add(const MadeCall& call) {
    const int32_t number = counts_[call.op]++;
    for (const Io io : {Io::kInput, Io::kOutput}) {
      LogicalTensor& tensor = tensors_.emplace_back();
      tensor.key.op = call.op;
      tensor.key.call = number;
      tensor.key.io = io;
      tensor.key.index = "0";
      tensor.shape = call.shape;
      tensor.dtype = call.dtype;
      if (call.origin > 0) {
        tensor.hash = {2 * call.origin, io == Io::kInput ? 1u : 2u};
      }
    }
  }

  std::vector<LogicalTensor>& tensors() { return tensors_; }

 private:
  std::map<std::string, int32_t> counts_;
  std::vector<LogicalTensor> tensors_;
};

std::vector<LogicalTensor> RunOf(const std::vector<MadeCall>& calls) {
  Program out;
  for (const MadeCall& call : calls) out.Add(call);
  return std::move(out.tensors());
}

class CallAlignmentTest : public ::testing::Test {
 protected:
  // The golden call of each call of the target run, such as `mul 0=1`; `mul 0=`
  // if it has none. Calls that keep their number are left out.
  std::vector<std::string> Moved() {
    const std::vector<std::optional<int32_t>> calls = GoldenCalls();
    std::vector<std::string> out;
    for (size_t i = 0; i < target_.size(); ++i) {
      const TensorKey& key = target_[i].key;
      if (key.io != Io::kInput || calls[i] == key.call) continue;
      out.push_back(key.op + " " + std::to_string(key.call) + "=" +
                    (calls[i].has_value() ? std::to_string(*calls[i]) : ""));
    }
    return out;
  }

  std::vector<std::optional<int32_t>> GoldenCalls() {
    const PairingSides sides{golden_, target_, with_device_, calls_};
    const MatchRules rules = *MatchRules::Create(spec_);
    const CallAlignment alignment(rules, sides, Partners(sides));
    std::vector<std::optional<int32_t>> out;
    for (size_t i = 0; i < target_.size(); ++i) {
      out.push_back(alignment.GoldenCallOf(i));
    }
    return out;
  }

  std::vector<LogicalTensor> golden_;
  std::vector<LogicalTensor> target_;
  v1::Matching spec_;
  CallPairing calls_ = CallPairing::kByPlace;
  bool with_device_ = false;
};

TEST_F(CallAlignmentTest, CallsBelongToThoseOfTheSameStretch) {
  golden_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}, {"to"}, {"c"}});
  target_ = RunOf({{"to"}, {"a"}, {"b"}, {"to"}, {"c"}});
  EXPECT_THAT(Moved(), ElementsAre("to 1=2"));
  std::swap(golden_, target_);
  EXPECT_THAT(Moved(), ElementsAre("to 1=", "to 2=1"));
}

TEST_F(CallAlignmentTest, EqualNumbersOfCallsKeepTheirNumbers) {
  golden_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}});
  target_ = RunOf({{"to"}, {"a"}, {"b"}, {"to"}});
  EXPECT_THAT(Moved(), ElementsAre());
}

TEST_F(CallAlignmentTest, CallsKeepTheirNumbersWithoutAnOrder) {
  golden_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}});
  target_ = RunOf({{"a"}, {"to"}, {"b"}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=1"));
  calls_ = CallPairing::kByNumber;
  EXPECT_THAT(Moved(), ElementsAre());
}

TEST_F(CallAlignmentTest, CallsKeepTheirNumbersIfSomeWereNotRecorded) {
  golden_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}, {"to"}});
  target_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}, {"to"}});
  target_.erase(target_.begin() + 4, target_.begin() + 6);
  EXPECT_THAT(Moved(), ElementsAre());
}

TEST_F(CallAlignmentTest, AStretchWithEquallyManyCallsIsInOrder) {
  golden_ = RunOf({{"to"}, {"a"}, {"to", {3}}, {"to", {4}}, {"b"}});
  target_ = RunOf({{"a"}, {"to", {4}}, {"to", {5}}, {"b"}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=1", "to 1=2"));
}

TEST_F(CallAlignmentTest, ShapesTellCallsOfAStretchApart) {
  golden_ = RunOf({{"to", {2}}, {"to", {3}}, {"to", {4}}});
  target_ = RunOf({{"to", {2}}, {"to", {2}}, {"to", {3}}, {"to", {4}}});
  EXPECT_THAT(Moved(), ElementsAre("to 1=", "to 2=1", "to 3=2"));
  target_ = RunOf({{"to", {2}, 0, DType::kInt64},
                   {"to", {2}, 0, DType::kFloat16},
                   {"to", {3}, 0, DType::kFloat16},
                   {"to", {4}, 0, DType::kFloat16}});
  EXPECT_THAT(Moved(), ElementsAre("to 1=", "to 2=1", "to 3=2"));
}

// A golden mask may be bool and that of the target float, and a layout may have
// one more dimension.
TEST_F(CallAlignmentTest, TypesAndDimensionsOfOneDoNotMatter) {
  golden_ = RunOf({{"to", {2}}, {"to", {3}, 0, DType::kBool}});
  target_ = RunOf({{"to", {2}}, {"to", {2}}, {"to", {1, 3}}});
  EXPECT_THAT(Moved(), ElementsAre("to 1=", "to 2=1"));
}

TEST_F(CallAlignmentTest, CallsOfOtherShapesHaveCounterparts) {
  golden_ = RunOf({{"to", {2}, 1}, {"to", {3}, 2}});
  target_ = RunOf({{"to", {4}, 7}, {"to", {3}, 2}, {"to", {3}, 8}});
  EXPECT_THAT(Moved(), ElementsAre("to 2="));
}

TEST_F(CallAlignmentTest, AnotherInputDoesNotSetCallsApart) {
  golden_ = RunOf({{"to", {2}}, {"to", {3}}, {"to", {4}}});
  target_ = RunOf({{"to", {2}}, {"to", {9}}, {"to", {3}}, {"to", {4}}});
  LogicalTensor mask = golden_[2];
  mask.key.index = "mask";
  golden_.insert(golden_.begin() + 3, mask);
  EXPECT_THAT(Moved(), ElementsAre("to 1=", "to 2=1", "to 3=2"));
}

TEST_F(CallAlignmentTest, EqualHashesDecideBetweenCallsThatAreAlike) {
  golden_ = RunOf({{"to", {2}, 1}, {"to", {2}, 2}});
  target_ = RunOf({{"to", {2}, 7}, {"to", {2}, 1}, {"to", {2}, 8}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=", "to 1=0", "to 2=1"));
  // Even if shapes are more alike elsewhere.
  target_ = RunOf({{"to", {2}, 7}, {"to", {2}, 1}, {"to", {5}, 8}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=", "to 1=0", "to 2=1"));
  // They do not reduce the number of pairs.
  target_ = RunOf({{"to", {2}, 2}, {"to", {2}, 7}, {"to", {2}, 8}});
  EXPECT_THAT(Moved(), ElementsAre("to 2="));
}

// The wrong result must be compared, although the right one follows.
TEST_F(CallAlignmentTest, HashesOfOutputsDoNotDecide) {
  golden_ = RunOf({{"to", {2}, 1}});
  target_ = RunOf({{"to", {2}, 1}, {"to", {2}, 1}});
  target_[1].hash = {99, 99};
  EXPECT_THAT(Moved(), ElementsAre("to 1="));
}

TEST_F(CallAlignmentTest, ACallWithOtherOutputsIsFoundByItsInputs) {
  golden_ = RunOf({{"to", {2}}, {"a"}, {"to", {3}}});
  target_ = RunOf({{"a"}, {"to", {2}}, {"to", {3}}, {"to", {4}}});
  target_[5].shape = {5};
  EXPECT_THAT(Moved(), ElementsAre("to 2="));
}

TEST_F(CallAlignmentTest, LandmarksInAnotherOrderAreLeftOut) {
  golden_ = RunOf({{"a"}, {"q"}, {"to"}, {"k"}, {"b"}, {"to"}, {"c"}, {"to"}});
  target_ = RunOf({{"a"}, {"k"}, {"q"}, {"b"}, {"to"}, {"c"}, {"to"}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=1", "to 1=2"));
}

// Both runs call `to` as often, but each at a place that the other lacks.
TEST_F(CallAlignmentTest, EqualCountsAtOtherPlacesAreNoLandmarks) {
  std::vector<MadeCall> golden = {{"to", {8}}};
  std::vector<MadeCall> target;
  for (int i = 0; i < 6; ++i) {
    for (auto* const calls : {&golden, &target}) {
      calls->push_back({"layer" + std::to_string(i)});
      calls->push_back({"to"});
      calls->push_back({"pad"});
    }
  }
  target.push_back({"to", {8}});
  target.push_back({"pad"});
  golden_ = RunOf(golden);
  target_ = RunOf(target);
  EXPECT_THAT(Moved(), ElementsAre("pad 6="));
}

// A landmark between them must not leave the wrong call without a counterpart.
TEST_F(CallAlignmentTest, CallsInAnotherOrderKeepTheirNumbers) {
  golden_ = RunOf({{"cos"}, {"norm"}, {"end"}});
  target_ = RunOf({{"norm"}, {"cos"}, {"end"}, {"cos"}});
  EXPECT_THAT(Moved(), ElementsAre("cos 1="));
}

TEST_F(CallAlignmentTest, DevicesHaveCallsOfTheirOwn) {
  golden_ = RunOf({{"to", {2}}, {"to", {3}}});
  target_ = RunOf({{"to", {2}}, {"to", {3}}});
  for (auto* const run : {&golden_, &target_}) {
    const std::vector<LogicalTensor> others =
        run == &golden_ ? RunOf({{"to", {2}}, {"to", {3}}})
                        : RunOf({{"to", {9}}, {"to", {2}}, {"to", {3}}});
    for (LogicalTensor tensor : others) {
      tensor.key.device = "npu:1";
      run->push_back(tensor);
    }
  }
  with_device_ = true;
  EXPECT_THAT(Moved(), ElementsAre("to 0=", "to 1=0", "to 2=1"));
}

TEST_F(CallAlignmentTest, OnlyFunctionsAreAlignedIfAskedTo) {
  golden_ = RunOf({{"to"}, {"Torch.to"}, {"a"}, {"to"}, {"Torch.to"}});
  target_ = RunOf({{"a"}, {"to"}, {"Torch.to"}});
  EXPECT_THAT(Moved(), ElementsAre("to 0=1", "Torch.to 0=1"));
  calls_ = CallPairing::kFunctionsByPlace;
  EXPECT_THAT(Moved(), ElementsAre("Torch.to 0=1"));
}

TEST_F(CallAlignmentTest, ARunThatEndsEarlyHasTheFirstCalls) {
  std::vector<MadeCall> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back({"layer" + std::to_string(i)});
    calls.push_back({"to"});
    calls.push_back({"to"});
  }
  golden_ = RunOf(calls);
  calls.resize(14);
  target_ = RunOf(calls);
  EXPECT_THAT(Moved(), ElementsAre());
}

TEST_F(CallAlignmentTest, RulesMakeGoldenNames) {
  auto& rewrite = *spec_.add_rewrites();
  rewrite.set_regex("^npu\\.");
  golden_ = RunOf({{"to"}, {"a"}, {"to"}, {"b"}});
  target_ = RunOf({{"npu.a"}, {"npu.to"}, {"npu.b"}});
  EXPECT_THAT(Moved(), ElementsAre("npu.to 0=1"));
  // Two ops of one name have numbers of their own.
  target_ = RunOf({{"npu.a"}, {"npu.to"}, {"to"}, {"to"}, {"npu.b"}});
  EXPECT_THAT(Moved(), ElementsAre());
}

TEST_F(CallAlignmentTest, WeightsKeepTheirNumbers) {
  golden_ = RunOf({{"linear"}, {"a"}, {"linear"}, {"b"}});
  target_ = RunOf({{"a"}, {"linear"}, {"b"}});
  target_.push_back(target_[2]);
  target_.back().key.io = Io::kWeight;
  const auto calls = GoldenCalls();
  EXPECT_EQ(calls[2], 1);
  EXPECT_EQ(calls[6], 0);
}

TEST_F(CallAlignmentTest, GradientsBelongToTheCallOfTheirForward) {
  golden_ = RunOf({{"mul"}, {"a"}, {"mul"}, {"b"}});
  target_ = RunOf({{"a"}, {"mul"}, {"b"}});
  for (auto* const run : {&golden_, &target_}) {
    for (int32_t call = run == &golden_ ? 1 : 0; call >= 0; --call) {
      LogicalTensor gradient = run->front();
      gradient.key.op = "mul";
      gradient.key.call = call;
      gradient.key.io = Io::kGradInput;
      run->push_back(gradient);
    }
  }
  EXPECT_EQ(GoldenCalls().back(), 1);
}

// Calls of a few ops between those of modules, each of which is made once.
std::vector<MadeCall> RandomCalls(std::mt19937& random, int count) {
  std::vector<MadeCall> out;
  for (int i = 0; i < count; ++i) {
    const auto number = static_cast<int64_t>(random() % 3);
    out.push_back({random() % 4 == 0 ? "module" + std::to_string(i)
                                     : "op" + std::to_string(random() % 3),
                   {2, number},
                   static_cast<uint64_t>(i + 1)});
  }
  return out;
}

// Changes the calls of the first op: the target run lacks some of them, or has
// some more. A stretch has only one kind of change, so the answer is unique.
std::vector<MadeCall> Changed(const std::vector<MadeCall>& calls,
                              std::mt19937& random) {
  uint64_t origin = 1'000'000;
  std::vector<MadeCall> out;
  bool removes = false;
  for (const MadeCall& call : calls) {
    if (call.op.starts_with("module")) removes = random() % 2 == 0;
    const bool changes = call.op == "op0" && random() % 8 == 0;
    if (changes && removes) continue;
    if (changes) out.push_back({"op0", call.shape, ++origin});
    out.push_back(call);
  }
  return out;
}

TEST_F(CallAlignmentTest, RandomChangesAreFound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::vector<MadeCall> calls = RandomCalls(random, 60);
    golden_ = RunOf(calls);
    target_ = RunOf(Changed(calls, random));
    std::map<uint64_t, int32_t> golden_calls;  // By origin.
    int32_t golden_count = 0;
    for (const LogicalTensor& golden : golden_) {
      golden_calls[golden.hash.low] = golden.key.call;
      golden_count += golden.key.op == "op0";
    }
    const auto target_count = std::count_if(
        target_.begin(), target_.end(),
        [](const LogicalTensor& target) { return target.key.op == "op0"; });
    std::set<int32_t> golden_rest;  // Calls of the first op.
    for (const LogicalTensor& golden : golden_) {
      if (golden.key.op == "op0") golden_rest.insert(golden.key.call);
    }
    for (const LogicalTensor& target : target_) {
      const auto found = golden_calls.find(target.hash.low);
      if (target.key.op == "op0" && found != golden_calls.end()) {
        golden_rest.erase(found->second);
      }
    }
    std::vector<std::optional<int32_t>> expected;
    for (const LogicalTensor& target : target_) {
      const auto found = golden_calls.find(target.hash.low);
      if (golden_count == target_count || target_count == 0) {
        expected.emplace_back(target.key.call);
      } else if (found != golden_calls.end()) {
        expected.emplace_back(found->second);
      } else if (golden_rest.contains(target.key.call)) {
        expected.emplace_back(target.key.call);
      } else {
        expected.emplace_back(std::nullopt);
      }
    }
    EXPECT_THAT(GoldenCalls(), ElementsAreArray(expected)) << round;
  }
}

TEST_F(CallAlignmentTest, ManyCallsAreAlignedInTime) {
  constexpr int kCalls = 1 << 16;  // Two tensors each.
  std::vector<MadeCall> calls;
  for (int i = 0; i < kCalls; ++i) {
    const bool is_module = i % 512 == 0;
    calls.push_back({is_module ? "module" + std::to_string(i) : "to",
                     {i % 2 + 1, i % 7},
                     static_cast<uint64_t>(i + 1)});
  }
  golden_ = RunOf(calls);
  calls.erase(calls.begin() + 1000);
  target_ = RunOf(calls);
  std::vector<std::string> moved = Moved();
  EXPECT_EQ(moved.size(), golden_.size() / 2 - 1000 - kCalls / 512 + 1);
  // Without landmarks and without hashes.
  for (MadeCall& call : calls) call = {"to", call.shape};
  target_ = RunOf(calls);
  calls.insert(calls.begin() + 1000, {"to", {9}});
  golden_ = RunOf(calls);
  moved = Moved();
  EXPECT_EQ(moved.size(), target_.size() / 2 - 1000);
  EXPECT_EQ(moved.front(), "to 1000=1001");
}

}  // namespace
}  // namespace msitd::compare
