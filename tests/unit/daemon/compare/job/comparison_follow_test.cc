// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/match/stream_watch.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using State = RankActivity::State;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::chrono::milliseconds kNow{0};

// A comparison that follows its runs. The golden run is complete.
class ComparisonFollowTest : public testing::EitherStoreTest {
 protected:
  ComparisonFollowTest() {
    plan_.follow = true;
    plan_.activity = [this](std::string_view run) {
      return run == "t" ? activity_ : RunActivity{};
    };
  }

  static void Record(RunRecorder& run, const std::string& op, float value,
                     int64_t token = 0) {
    RecordedTensor tensor = Floats(op, {value});
    tensor.token = token;
    run.Record(tensor);
  }

  void RecordGolden(int64_t token_count) {
    for (int64_t token = 0; token < token_count; ++token) {
      for (const char* op : {"a", "b", "c"}) Record(golden_, op, 1, token);
    }
    ASSERT_TRUE(store_.runs().SealRun("g").ok());
  }

  void Stream(State state, std::chrono::milliseconds quiet_time) {
    activity_.ranks = {{0, state, quiet_time}};
  }

  // Returns the new rows for the recorded tensors: token, op, verdict.
  std::vector<std::string> NewRows() {
    const size_t before = observer_.rows.size();
    EXPECT_TRUE(engine_.Run().ok());
    EXPECT_FALSE(engine_.HasNews());
    std::vector<std::string> out;
    for (size_t i = before; i < observer_.rows.size(); ++i) {
      const v1::ComparisonRow& row = observer_.rows[i];
      EXPECT_EQ(row.row(), static_cast<int64_t>(i));
      out.push_back(std::to_string(row.token()) + row.op() + " " +
                    v1::Verdict_Name(row.verdict()));
    }
    return out;
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  RunActivity activity_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  RowObserver observer_;
  ComparisonEngine engine_{store_.readers(), plan_, observer_};
};

MSITD_ON_BOTH_STORES(ComparisonFollowTest);

TEST_P(ComparisonFollowTest, TokenThatARankDiesInIsReported) {
  RecordGolden(2);
  Record(target_, "a", 1);
  Record(target_, "b", kNan);
  Stream(State::kOpen, kNow);
  EXPECT_THAT(NewRows(), IsEmpty());
  Stream(State::kBroken, kNow);
  EXPECT_TRUE(engine_.HasNews());
  EXPECT_THAT(NewRows(), ElementsAre("0a PASS", "0b FAIL"));
  // The rank has not reconnected, but it may. It recorded nothing at token 1.
  Stream(State::kBroken, kSilence);
  EXPECT_TRUE(engine_.HasNews());
  EXPECT_THAT(NewRows(), IsEmpty());
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), ElementsAre("0c UNMATCHED", "1a UNMATCHED",
                                     "1b UNMATCHED", "1c UNMATCHED"));
  EXPECT_EQ(observer_.comparison.fail_count(), 1);
  EXPECT_EQ(observer_.comparison.unmatched_count(), 4);
}

// An early row that was not read has no error that other rows could inherit.
TEST_P(ComparisonFollowTest, NobodyIsNamedBehindAnEarlyRowThatWasNotRead) {
  plan_.reading = Reading::kUnproven;
  for (int i = 0; i <= kProvenReadMax; ++i) {
    golden_.Record(Floats("op" + std::to_string(i), {1, 2}));
    target_.Record(Floats("op" + std::to_string(i), {2, 4}));
  }
  golden_.Record(Floats("turned", {1, 2}));
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  Stream(State::kOpen, kSilence);
  EXPECT_EQ(NewRows().size(), size_t{kProvenReadMax + 1});
  EXPECT_TRUE(observer_.rows.back().unread());
  target_.Record(Floats("turned", {2, 1}));
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), ElementsAre("0turned FAIL"));
  const v1::ComparisonRow& last = observer_.rows.back();
  EXPECT_FALSE(last.unread());
  EXPECT_NE(last.origin(), v1::CREATED);
  EXPECT_FALSE(last.has_amplification());
}

TEST_P(ComparisonFollowTest, RankThatComesBackHasEachRowOnce) {
  RecordGolden(2);
  Record(target_, "a", 1);
  Stream(State::kOpen, kSilence);
  EXPECT_THAT(NewRows(), ElementsAre("0a PASS"));
  Record(target_, "b", 2);
  Stream(State::kOpen, kNow);
  EXPECT_THAT(NewRows(), IsEmpty());
  Record(target_, "c", 1);
  Record(target_, "a", 1, 1);
  EXPECT_THAT(NewRows(), ElementsAre("0b FAIL", "0c PASS"));
  Stream(State::kFinished, kNow);
  EXPECT_THAT(NewRows(), ElementsAre("1a PASS"));
  Record(target_, "b", 1, 1);
  EXPECT_THAT(NewRows(), ElementsAre("1b PASS"));
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), ElementsAre("1c UNMATCHED"));
  EXPECT_FALSE(engine_.waits());
}

// The numbers of calls do not change their meaning after rows were made.
TEST_P(ComparisonFollowTest, CallsOfATokenWithEarlyRowsKeepTheirNumbers) {
  const auto record_call = [](RunRecorder& run, int32_t call, float value,
                              int64_t token) {
    RecordedTensor tensor = Floats("to", {value});
    tensor.call = call;
    tensor.token = token;
    run.Record(tensor);
  };
  for (const int64_t token : {0, 1}) {
    record_call(golden_, 0, 1, token);
    Record(golden_, "after0", 1, token);
    record_call(golden_, 1, 2, token);
    Record(golden_, "after1", 1, token);
  }
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  record_call(target_, 0, 1, 0);
  Stream(State::kOpen, kSilence);
  EXPECT_THAT(NewRows(), ElementsAre("0to PASS"));
  Record(target_, "after0", 1);
  // Token 1 has no early rows, so its call is paired by its place.
  Record(target_, "after0", 1, 1);
  record_call(target_, 0, 2, 1);
  Record(target_, "after1", 1, 1);
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(
      NewRows(),
      ElementsAre("0after0 PASS", "0to UNMATCHED", "0after1 UNMATCHED",
                  "1to UNMATCHED", "1after0 PASS", "1to PASS", "1after1 PASS"));
  EXPECT_EQ(observer_.rows[6].pairing(),
            "the same place in the order of execution");
}

// The rows are the same whether or not a part of the token was there before.
TEST_P(ComparisonFollowTest, CallsOfFunctionsHaveNoEarlyRows) {
  const auto record_call = [](RunRecorder& run, int32_t call, float value) {
    RecordedTensor tensor = Floats("Torch.to", {value});
    tensor.call = call;
    run.Record(tensor);
  };
  Record(golden_, "before", 1);
  record_call(golden_, 0, 2);
  Record(golden_, "after", 1);
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  record_call(target_, 0, 1);
  Record(target_, "before", 1);
  Stream(State::kOpen, kSilence);
  EXPECT_THAT(NewRows(), ElementsAre("0before PASS"));
  record_call(target_, 1, 2);
  Record(target_, "after", 1);
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), UnorderedElementsAre("0Torch.to PASS", "0after PASS",
                                              "0Torch.to UNMATCHED"));
}

// A rank that died shows where.
TEST_P(ComparisonFollowTest, FunctionsOfARankThatIsGoneAreCompared) {
  plan_.activity = [this](std::string_view) { return activity_; };
  for (RunRecorder* run : {&golden_, &target_}) Record(*run, "Torch.to", 1);
  Stream(State::kFinished, kNow);
  EXPECT_THAT(NewRows(), IsEmpty());
  Stream(State::kFinished, kSilence);
  EXPECT_THAT(NewRows(), ElementsAre("0Torch.to PASS"));
}

// Records of a rank are compared even after a long silence.
TEST_P(ComparisonFollowTest, RankThatComesBackLateIsCompared) {
  plan_.activity = [this](std::string_view) { return activity_; };
  for (RunRecorder* run : {&golden_, &target_}) Record(*run, "a", 1);
  Stream(State::kFinished, kSilence);
  EXPECT_THAT(NewRows(), ElementsAre("0a PASS"));
  Record(golden_, "b", 1);
  Stream(State::kFinished, kNow);
  EXPECT_THAT(NewRows(), IsEmpty());
  Stream(State::kFinished, kSilence);
  EXPECT_THAT(NewRows(), IsEmpty());
  Record(target_, "b", 99);
  EXPECT_THAT(NewRows(), IsEmpty());
  Stream(State::kFinished, kNow);
  EXPECT_THAT(NewRows(), ElementsAre("0b FAIL"));
  Record(golden_, "c", 1);
  Record(target_, "c", 1);
  for (const char* run : {"g", "t"})
    ASSERT_TRUE(store_.runs().SealRun(run).ok());
  EXPECT_THAT(NewRows(), ElementsAre("0c PASS"));
  EXPECT_EQ(observer_.comparison.fail_count(), 1);
}

// If every rank computes a tensor itself, the copies so far decide.
TEST_P(ComparisonFollowTest, CopiesWaitForAllRanks) {
  const auto record = [](RunRecorder& run, const std::string& op, float value,
                         int32_t rank, const std::string& placement) {
    RecordedTensor tensor = Floats(op, {value});
    tensor.rank = rank;
    tensor.placement = placement;
    run.Record(tensor);
  };
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  RecordedTensor whole = Floats("w", {1, 2});
  golden_.Record(whole);
  Record(golden_, "norm", 1);
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  record(target_, "w", 1, 0, "0+2/1:S(0)");
  record(target_, "norm", 1, 0, "");
  record(target_, "w", 2, 1, "0+2/1:S(0)");
  activity_.ranks = {{0, State::kFinished, kNow}, {1, State::kFinished, kNow}};
  EXPECT_THAT(NewRows(), ElementsAre("0w PASS"));
  record(target_, "norm", 99, 1, "");
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), ElementsAre("0norm FAIL"));
}

// Tensors that wait for other ranks are not measured, so that their metrics are
// not assigned to tensors that do not wait.
TEST_P(ComparisonFollowTest, CopiesThatWaitAreNotMeasured) {
  const auto record = [](RunRecorder& run, const std::string& op, float value,
                         int32_t rank, const std::string& placement) {
    RecordedTensor tensor = Floats(op, {value});
    tensor.rank = rank;
    tensor.placement = placement;
    run.Record(tensor);
  };
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  Record(golden_, "norm", 1);
  golden_.Record(Floats("w", {1, 2}));
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  record(target_, "norm", 99, 0, "");
  record(target_, "w", 1, 0, "0+2/1:S(0)");
  record(target_, "w", 2, 1, "0+2/1:S(0)");
  activity_.ranks = {{0, State::kFinished, kNow}, {1, State::kFinished, kNow}};
  EXPECT_THAT(NewRows(), ElementsAre("0w PASS"));
  record(target_, "norm", 99, 1, "");
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), ElementsAre("0norm FAIL"));
}

TEST_P(ComparisonFollowTest, GoldenRunWithoutStreamsIsComparedBeforeItsSeal) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  for (const char* op : {"a", "b"}) Record(golden_, op, 1);
  Record(target_, "a", 1);
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  EXPECT_THAT(NewRows(), IsEmpty());
  RunActivity long_ago;
  long_ago.known_time = kSilence;
  plan_.activity = [long_ago](std::string_view) { return long_ago; };
  EXPECT_TRUE(engine_.HasNews());
  EXPECT_THAT(NewRows(), ElementsAre("0a PASS"));
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  EXPECT_THAT(NewRows(), ElementsAre("0b UNMATCHED"));
}

TEST(OutlookTest, SaysWhatIsToBeExpectedOfEachRank) {
  RunActivity activity;
  activity.known_time = kSilence;
  activity.ranks = {
      {0, State::kOpen, kNow},      {1, State::kOpen, kSilence},
      {2, State::kFinished, kNow},  {3, State::kFinished, kSilence},
      {4, State::kBroken, kNow},    {5, State::kBroken, kSilence},
      {7, State::kBroken, kSilence}};
  const auto silent_of = [](const Outlook& outlook) {
    std::vector<int32_t> ranks;
    for (const Outlook::Silent& rank : outlook.silent) {
      ranks.push_back(rank.rank);
    }
    return ranks;
  };
  Outlook outlook = OutlookOf(activity, 8, kSilence);
  EXPECT_THAT(outlook.going, ElementsAre(0));
  EXPECT_THAT(outlook.stalled, ElementsAre(1, 2, 4));
  EXPECT_THAT(outlook.closed, ElementsAre(3, 5, 7));
  EXPECT_TRUE(outlook.are_others_closed);
  EXPECT_THAT(silent_of(outlook), ElementsAre(3, 5, 6, 7));
  EXPECT_TRUE(outlook.silent[0].has_finished);
  EXPECT_FALSE(outlook.silent[1].has_finished);
  // The run has been active for a short time only, so rank 6 may still appear.
  activity.known_time = kNow;
  EXPECT_THAT(silent_of(OutlookOf(activity, 8, kSilence)),
              ElementsAre(3, 5, 7));
  // No rank streams. Ranks that have finished are not reported as silent.
  activity.ranks = {{0, State::kFinished, kSilence},
                    {1, State::kBroken, kSilence}};
  EXPECT_THAT(silent_of(OutlookOf(activity, 2, kSilence)), ElementsAre(1));
  EXPECT_THAT(silent_of(OutlookOf({}, 0, kSilence)), IsEmpty());
}

TEST(OutlookTest, IsAsSmallAsWhatStreamed) {
  RunActivity activity;
  activity.known_time = kSilence;
  activity.ranks = {{1, State::kOpen, kNow}, {3, State::kBroken, kSilence}};
  const Outlook outlook = OutlookOf(activity, 1 << 20, kSilence);
  EXPECT_EQ(outlook.silent.size(), kSilentRanksMax);
  EXPECT_EQ(outlook.silent[0].rank, 0);
  EXPECT_EQ(outlook.silent.back().rank, 16);
  EXPECT_THAT(outlook.closed, ElementsAre(3));
}

}  // namespace
}  // namespace msitd::compare
