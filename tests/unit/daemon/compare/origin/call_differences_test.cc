// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kNone = CallTree::kNone;

// Runs are recorded in execution order. A tensor is paired with that of the
// other run that has the same mark, if the mark is not 0.
class CallDifferencesTest : public ::testing::Test {
 protected:
  struct Record {
    std::string op;
    Io io = Io::kOutput;
    int mark = 0;
    int call = 0;
    std::string index = "0";
  };
  using Run = std::vector<Record>;

  static void AddCall(Run& run, const std::string& op, int call, int mark) {
    run.push_back({op, Io::kInput, mark, call});
    run.push_back({op, Io::kOutput, mark == 0 ? 0 : mark + 1, call});
  }

  const LogicalTensor* Tensor(const Record& record) {
    LogicalTensor& out = tensors_.emplace_back();
    out.key.op = record.op;
    out.key.io = record.io;
    out.key.call = record.call;
    out.key.index = record.index;
    out.sequence = tensors_.size();
    return &out;
  }

  // Returns the notes on the code of the first call of the golden run before
  // the tensor with this mark, after the last part that both runs call.
  std::vector<std::string> NotesOn(const Run& golden, const Run& target,
                                   int mark, bool may_lack_records = false,
                                   bool has_scope = true) {
    std::vector<TensorPair> pairs;
    for (const Record& record : golden) pairs.push_back({Tensor(record), {}});
    int32_t event = kNone;
    for (size_t i = 0; i < golden.size(); ++i) {
      if (golden[i].mark == mark) event = static_cast<int32_t>(i);
    }
    for (const Record& record : target) {
      const LogicalTensor* tensor = Tensor(record);
      size_t i = 0;
      while (i < golden.size() &&
             (record.mark == 0 || golden[i].mark != record.mark)) {
        ++i;
      }
      if (i < golden.size()) {
        pairs[i].target = tensor;
      } else {
        pairs.push_back({nullptr, tensor});
      }
    }
    const CallTree tree(pairs);
    const int32_t scope = has_scope ? tree.first_call() : kNone;
    return CallDifferences(tree, pairs)
        .NotesOn(scope, tree.LastPartBefore(scope, event), event,
                 may_lack_records);
  }

  // `m` calls `a`, `b` so many times, and `c`. The first `paired` calls of `b`
  // have counterparts.
  static Run CallsB(int count, int paired) {
    Run run = {{"m", Io::kInput, 1}};
    AddCall(run, "m.a", 0, 10);
    for (int i = 0; i < count; ++i) {
      AddCall(run, "b", i, i < paired ? 20 + 2 * i : 0);
    }
    AddCall(run, "m.c", 0, 50);
    run.push_back({"m", Io::kOutput, 2});
    return run;
  }

  std::deque<LogicalTensor> tensors_;
};

TEST_F(CallDifferencesTest, RunsThatMakeTheSameCallsHaveNoNotes) {
  EXPECT_THAT(NotesOn(CallsB(0, 0), CallsB(0, 0), 50), IsEmpty());
  EXPECT_THAT(NotesOn(CallsB(2, 2), CallsB(2, 2), 50), IsEmpty());
}

TEST_F(CallDifferencesTest, AnOpThatOneRunCallsIsNamed) {
  EXPECT_THAT(NotesOn(CallsB(2, 0), CallsB(0, 0), 50),
              ElementsAre("only golden calls b"));
  EXPECT_THAT(NotesOn(CallsB(0, 0), CallsB(2, 0), 50),
              ElementsAre("only target calls b"));
}

TEST_F(CallDifferencesTest, OtherNumbersOfCallsAreStated) {
  EXPECT_THAT(NotesOn(CallsB(3, 1), CallsB(1, 1), 50),
              ElementsAre("golden makes more calls of b (3, target 1)"));
  EXPECT_THAT(NotesOn(CallsB(1, 1), CallsB(2, 1), 50),
              ElementsAre("target makes more calls of b (2, golden 1)"));
  // The call of the target has the number of the missing one.
  EXPECT_THAT(NotesOn(CallsB(2, 0), CallsB(1, 0), 50),
              ElementsAre("golden makes more calls of b (2, target 1)"));
}

TEST_F(CallDifferencesTest, NumbersOfRecordsWithGapsAreNotStated) {
  EXPECT_THAT(NotesOn(CallsB(3, 1), CallsB(1, 1), 50, true), IsEmpty());
}

// The tensors of such calls have other names in each run.
TEST_F(CallDifferencesTest, CallsWithoutCommonTensorsAreCallsOfBothRuns) {
  Run golden = CallsB(1, 0);
  golden[3].index = "0.0";
  golden[4].index = "0.0";
  EXPECT_THAT(NotesOn(golden, CallsB(1, 0), 50), IsEmpty());
  // Nor are the parts of such a call calls of the code around it.
  Run target = CallsB(1, 0);
  target.insert(target.begin() + 4,
                {{"b.part", Io::kInput}, {"b.part", Io::kOutput}});
  EXPECT_THAT(NotesOn(golden, target, 50), IsEmpty());
}

TEST_F(CallDifferencesTest, AnInputOfACommonCallIsNoCall) {
  Run target = CallsB(1, 1);
  target.insert(target.begin() + 4, {"b", Io::kInput, 0, 0, "mask"});
  EXPECT_THAT(NotesOn(CallsB(1, 1), target, 50), IsEmpty());
}

TEST_F(CallDifferencesTest, ScopesWithoutPairsAreFoundByName) {
  Run golden = CallsB(2, 1);
  Run target = CallsB(1, 1);
  for (Run* run : {&golden, &target}) {
    run->front().mark = 0;
    run->back().mark = 0;
  }
  EXPECT_THAT(NotesOn(golden, target, 50),
              ElementsAre("golden makes more calls of b (2, target 1)"));
}

TEST_F(CallDifferencesTest, CallsElsewhereDoNotCount) {
  // `n`, which follows `m`, calls `b` in both runs.
  Run golden = CallsB(1, 0);
  Run target = CallsB(0, 0);
  for (Run* run : {&golden, &target}) {
    run->push_back({"n", Io::kInput, 60});
    AddCall(*run, "b", run == &golden ? 1 : 0, 70);
    run->push_back({"n", Io::kOutput, 61});
  }
  EXPECT_THAT(NotesOn(golden, target, 50), ElementsAre("only golden calls b"));
  // Calls of the code before the last common part do not count either.
  EXPECT_THAT(NotesOn(golden, target, 2), IsEmpty());
}

TEST_F(CallDifferencesTest, CallsOutsideOfModulesAreCompared) {
  Run golden;
  Run target;
  AddCall(golden, "a", 0, 10);
  AddCall(target, "a", 0, 10);
  AddCall(target, "a", 1, 0);
  AddCall(golden, "c", 0, 20);
  AddCall(target, "c", 0, 20);
  EXPECT_THAT(NotesOn(golden, target, 20, false, false),
              ElementsAre("target makes more calls of a (2, golden 1)"));
}

TEST_F(CallDifferencesTest, AWrapperDoesNotHideCalls) {
  Run target = {{"m", Io::kInput, 1}};
  AddCall(target, "m.a", 0, 10);
  target.push_back({"m.wrap", Io::kInput});
  AddCall(target, "b", 0, 20);
  AddCall(target, "b", 1, 22);
  target.push_back({"m.wrap", Io::kOutput});
  AddCall(target, "m.c", 0, 50);
  target.push_back({"m", Io::kOutput, 2});
  EXPECT_THAT(NotesOn(CallsB(2, 2), target, 50),
              ElementsAre("only target calls m.wrap"));
}

TEST_F(CallDifferencesTest, OpsWithOtherNamesInTheTargetAreTheSameOps) {
  Run target = CallsB(2, 1);
  for (Record& record : target) {
    if (record.op == "b") record.op = "fused.b";
  }
  EXPECT_THAT(NotesOn(CallsB(2, 1), target, 50), IsEmpty());
  EXPECT_THAT(NotesOn(CallsB(1, 1), target, 50),
              ElementsAre("target makes more calls of b (2, golden 1)"));
}

}  // namespace
}  // namespace msitd::compare
