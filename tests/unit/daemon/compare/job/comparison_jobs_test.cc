// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/match/group_loader.h"
#include "google/protobuf/util/time_util.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/await_comparison.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ComparisonJobsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }

  void Open(const ComparisonJobs::Options& options) {
    jobs_.reset();
    auto jobs =
        ComparisonJobs::Create(store_, store_, store_.attachments(), options);
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
  }

  // Records a pair of tensors whose bytes have to be read.
  void RecordPair(std::string_view op, float target_value = 2) {
    golden_.Record(Floats(op, {1}));
    target_.Record(Floats(op, {target_value}));
  }

  static ComparisonPlan Plan() { return {"g", "t", {}, {}}; }

  uint64_t Start() {
    const auto comparison = jobs_->Start({}, Plan());
    EXPECT_TRUE(comparison.ok()) << comparison.status();
    return ParseComparisonName(comparison->name()).value();
  }

  // Starts a comparison that follows both runs.
  uint64_t Follow(bool detach = false) {
    ComparisonPlan plan = Plan();
    plan.follow = true;
    plan.detach = detach;
    const auto comparison = jobs_->Start({}, plan);
    EXPECT_TRUE(comparison.ok()) << comparison.status();
    return ParseComparisonName(comparison->name()).value();
  }

  // Records a tensor in both runs.
  void RecordToken(int64_t token) {
    RecordedTensor tensor = Floats("op", {1});
    tensor.token = token;
    golden_.Record(tensor);
    target_.Record(tensor);
  }

  // Waits until the comparison has `count` rows, and returns it.
  v1::Comparison AwaitRows(uint64_t id, int64_t count) {
    return AwaitThat(*jobs_, id, [count](const v1::Comparison& comparison) {
      return RowCount(comparison) >= count;
    });
  }

  v1::Comparison Get(uint64_t id) {
    const auto view = jobs_->Get(id);
    EXPECT_TRUE(view.ok()) << view.status();
    return view->comparison;
  }

  // Waits for a batch of rows. Pairs are measured ahead of their rows, so a
  // blocked read does not show which rows are complete.
  v1::Comparison AwaitBatch(uint64_t id) {
    return AwaitThat(*jobs_, id, [](const v1::Comparison& comparison) {
      return RowCount(comparison) >= static_cast<int64_t>(kRowsPerBatch);
    });
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  std::unique_ptr<ComparisonJobs> jobs_;
};

TEST_F(ComparisonJobsTest, ComparisonRunsToItsEnd) {
  RecordPair("same", 1);
  RecordPair("changed");
  v1::Comparison request;
  request.mutable_filter()->add_ranks(0);
  ComparisonPlan plan = Plan();
  plan.selector.ranks = {0};
  using google::protobuf::util::TimeUtil;
  const auto now_ns = [] {
    return std::chrono::nanoseconds(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t begin_ns = now_ns();
  const auto started = jobs_->Start(request, plan);
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->name(), "c-000001");
  EXPECT_EQ(started->state(), v1::Comparison::PENDING);
  EXPECT_EQ(started->first_hopeless_row(), -1);
  const int64_t create_ns =
      TimeUtil::TimestampToNanoseconds(started->create_time());
  EXPECT_GE(create_ns, begin_ns);

  const v1::Comparison ended = AwaitEnd(*jobs_, 1);
  EXPECT_EQ(ended.name(), "c-000001");
  EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
  EXPECT_EQ(ended.golden_run(), "g");
  EXPECT_EQ(ended.target_run(), "t");
  EXPECT_EQ(ended.filter().ranks_size(), 1);
  EXPECT_EQ(ended.pass_count(), 1);
  EXPECT_EQ(ended.fail_count(), 1);
  EXPECT_EQ(ended.total_count(), 2);
  // Once to compare the tensors, and once to explain their difference.
  EXPECT_EQ(ended.read_bytes(), 16);
  EXPECT_EQ(ended.first_divergence().op(), "changed");
  const int64_t end_ns = TimeUtil::TimestampToNanoseconds(ended.end_time());
  EXPECT_GE(end_ns, create_ns);
  EXPECT_LE(end_ns, now_ns());

  const auto rows = jobs_->Rows(1, 0, 10);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[1].op(), "changed");
  EXPECT_EQ(jobs_->Rows(1, 1, 10)->size(), 1u);
  EXPECT_EQ(jobs_->Rows(1, 2, 10)->size(), 0u);
  EXPECT_EQ(jobs_->Rows(1, 0, 1)->size(), 1u);
}

TEST_F(ComparisonJobsTest, RunsMustExist) {
  ComparisonPlan plan = Plan();
  plan.target_run = "nobody";
  EXPECT_EQ(Reason(jobs_->Start({}, plan).status()), "RUN_NOT_FOUND");
  EXPECT_TRUE(jobs_->List(0, 10)->empty());
}

TEST_F(ComparisonJobsTest, UnknownComparisonIsNotFound) {
  EXPECT_EQ(Reason(jobs_->Get(7).status()), "COMPARISON_NOT_FOUND");
  EXPECT_EQ(Reason(jobs_->Cancel(7).status()), "COMPARISON_NOT_FOUND");
  EXPECT_EQ(Reason(jobs_->Delete(7)), "COMPARISON_NOT_FOUND");
  EXPECT_EQ(Reason(jobs_->Rows(7, 0, 1).status()), "COMPARISON_NOT_FOUND");
}

TEST_F(ComparisonJobsTest, RunDeletedMeanwhileFailsTheComparison) {
  RecordPair("a");
  // More tensors than are looked up ahead.
  constexpr size_t kTokens = 20;
  for (size_t i = 0; i < GroupLoader::kAheadTensorsMax + kTokens; ++i) {
    RecordedTensor later = Floats("a." + std::to_string(i / kTokens), {1});
    later.token = 1 + static_cast<int64_t>(i % kTokens);
    golden_.Record(later);
  }
  store_.BlockReads();
  const uint64_t id = Start();
  store_.AwaitRead();
  ASSERT_TRUE(store_.DeleteRun("g").ok());
  store_.UnblockReads();
  const v1::Comparison ended = AwaitEnd(*jobs_, id);
  EXPECT_EQ(ended.state(), v1::Comparison::FAILED);
  EXPECT_THAT(ended.error(), HasSubstr("no run 'g'"));
  EXPECT_EQ(ended.error_code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(ended.error_reason(), "RUN_NOT_FOUND");
}

TEST_F(ComparisonJobsTest, RunThatGetsTheNameMeanwhileIsNotCompared) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 1});
  ComparisonPlan plan = Plan();
  plan.target_run = "u";
  RunRecorder(store_, "u").Record(Floats("a", {2}));
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const auto waiting = jobs_->Start({}, plan);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_FALSE(waiting->target_run_id().empty());
  ASSERT_TRUE(store_.DeleteRun("u").ok());
  RunRecorder(store_, "u").Record(Floats("a", {1}));
  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(*jobs_, running).state(), v1::Comparison::DONE);
  const v1::Comparison ended =
      AwaitEnd(*jobs_, ParseComparisonName(waiting->name()).value());
  EXPECT_EQ(ended.state(), v1::Comparison::FAILED);
  EXPECT_EQ(ended.error_reason(), "RUN_REPLACED");
  EXPECT_THAT(ended.error(), HasSubstr("run u was deleted"));
  // A request may specify the id of the run.
  plan.target_run_id = waiting->target_run_id();
  EXPECT_EQ(Reason(jobs_->Start({}, plan).status()), "RUN_REPLACED");
}

TEST_F(ComparisonJobsTest, RunningAndWaitingAreBounded) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 1});
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const uint64_t waiting = Start();
  EXPECT_EQ(Get(running).state(), v1::Comparison::RUNNING);
  EXPECT_EQ(Get(waiting).state(), v1::Comparison::PENDING);
  EXPECT_EQ(jobs_->live_count(), 2);
  const auto refused = jobs_->Start({}, Plan());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused.status()), "COMPARISONS_EXHAUSTED");
  // Nothing is read for a comparison without a slot.
  ComparisonPlan mapped = Plan();
  mapped.mapping = MappingSource{.run = "g", .attachment = "not there"};
  EXPECT_EQ(Reason(jobs_->Start({}, mapped).status()), "COMPARISONS_EXHAUSTED");

  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(*jobs_, running).state(), v1::Comparison::DONE);
  EXPECT_EQ(AwaitEnd(*jobs_, waiting).state(), v1::Comparison::DONE);
  // Each of these releases its slot.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(jobs_->Start({}, mapped).status().code(),
              absl::StatusCode::kNotFound);
  }
  EXPECT_TRUE(jobs_->Start({}, Plan()).ok());
}

TEST_F(ComparisonJobsTest, CancelKeepsTheRowsSoFar) {
  for (size_t i = 0; i < kRowsPerBatch + 10; ++i) {
    RecordPair(fmt::format("op{}", i), 1);
  }
  RecordPair("blocks");
  // The pair is equal, so nothing is measured ahead, and a blocked read is a
  // read of the job.
  RecordPair("last", 1);
  Open({.cancel_wait = std::chrono::milliseconds(0)});
  store_.BlockReads();
  const uint64_t id = Start();
  AwaitBatch(id);
  store_.AwaitRead();
  EXPECT_EQ(jobs_->Cancel(id)->state(), v1::Comparison::RUNNING);
  store_.UnblockReads();
  const v1::Comparison ended = AwaitEnd(*jobs_, id);
  EXPECT_EQ(ended.state(), v1::Comparison::CANCELLED);
  EXPECT_GE(ended.pass_count(), static_cast<int64_t>(kRowsPerBatch));
  // The current pair has no parts left between which it could stop.
  EXPECT_LE(ended.fail_count(), 1);
  EXPECT_EQ(ended.total_count(), static_cast<int64_t>(kRowsPerBatch) + 12);
  EXPECT_EQ(static_cast<int64_t>(jobs_->Rows(id, 0, 1000)->size()),
            RowCount(ended));
  // Cancelling a comparison that has ended has no effect.
  EXPECT_EQ(jobs_->Cancel(id)->end_time().nanos(), ended.end_time().nanos());
}

TEST_F(ComparisonJobsTest, WaitingComparisonIsCancelledAtOnce) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 1});
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const uint64_t waiting = Start();
  EXPECT_EQ(jobs_->Cancel(waiting)->state(), v1::Comparison::CANCELLED);
  EXPECT_EQ(jobs_->live_count(), 1);
  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(*jobs_, running).state(), v1::Comparison::DONE);
}

TEST_F(ComparisonJobsTest, DeleteOfARunningComparisonLeavesNothing) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 1});
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const uint64_t waiting = Start();
  Gate woken;
  EXPECT_NE(jobs_->AwaitChange(running, jobs_->Get(running)->version,
                               [&woken] { woken.Open(); }),
            0u);
  ASSERT_TRUE(jobs_->Delete(running).ok());
  ASSERT_TRUE(jobs_->Delete(waiting).ok());
  woken.Await();
  EXPECT_EQ(Reason(jobs_->Get(running).status()), "COMPARISON_NOT_FOUND");
  EXPECT_EQ(Reason(jobs_->Get(waiting).status()), "COMPARISON_NOT_FOUND");
  EXPECT_EQ(Reason(jobs_->Delete(running)), "COMPARISON_NOT_FOUND");
  store_.UnblockReads();
  jobs_->Stop();
  EXPECT_TRUE(store_.ListComparisons(0, 10)->empty());
}

TEST_F(ComparisonJobsTest, NobodySeesHowADeletedComparisonEnds) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 0});
  store_.BlockReads();
  const uint64_t id = Start();
  store_.AwaitRead();
  std::string reason;
  store_.OnDeleteComparison(
      [this, id, &reason] { reason = Reason(jobs_->Get(id).status()); });
  ASSERT_TRUE(jobs_->Delete(id).ok());
  EXPECT_EQ(reason, "COMPARISON_NOT_FOUND");
  store_.UnblockReads();
}

TEST_F(ComparisonJobsTest, DeleteOfAnEndedComparisonRemovesIt) {
  const uint64_t id = Start();
  AwaitEnd(*jobs_, id);
  ASSERT_TRUE(jobs_->Delete(id).ok());
  EXPECT_TRUE(jobs_->List(0, 10)->empty());
}

TEST_F(ComparisonJobsTest, StopEndsRunningAndWaitingComparisons) {
  RecordPair("a");
  RecordPair("b");
  Open({.active_max = 1, .waiting_max = 1});
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const uint64_t waiting = Start();
  std::thread stopper([this] { jobs_->Stop(); });
  AwaitEnd(*jobs_, waiting);
  store_.UnblockReads();
  stopper.join();
  for (const uint64_t id : {running, waiting}) {
    EXPECT_EQ(Get(id).state(), v1::Comparison::FAILED);
    EXPECT_EQ(Get(id).error(), kDaemonStopped);
  }
  EXPECT_EQ(Reason(jobs_->Start({}, Plan()).status()), "NOT_SERVING");
}

TEST_F(ComparisonJobsTest, RestartFailsWhatADaemonLeftUnfinished) {
  v1::Comparison document;
  document.set_golden_run("g");
  document.set_state(v1::Comparison::RUNNING);
  document.set_pass_count(1);
  ASSERT_EQ(*store_.CreateComparison(document.SerializeAsString(), {}), 1u);
  v1::ComparisonRow row;
  // The second row was written after the document, so it is not counted.
  const std::vector<std::string> rows(2, row.SerializeAsString());
  ASSERT_TRUE(store_.PutComparisonRows(1, 0, rows).ok());
  document.set_state(v1::Comparison::DONE);
  ASSERT_EQ(*store_.CreateComparison(document.SerializeAsString(), {}), 2u);

  Open({});
  EXPECT_EQ(Get(1).state(), v1::Comparison::FAILED);
  EXPECT_EQ(Get(1).error(), kDaemonStopped);
  EXPECT_EQ(Get(1).name(), "c-000001");
  EXPECT_TRUE(Get(1).has_end_time());
  EXPECT_EQ(jobs_->Rows(1, 0, 10)->size(), 1u);
  EXPECT_EQ(Get(2).state(), v1::Comparison::DONE);
}

TEST_F(ComparisonJobsTest, RowsShowWhileTheComparisonRuns) {
  // More than one batch of rows that need no bytes, followed by a row whose
  // read blocks.
  for (size_t i = 0; i < kRowsPerBatch + 10; ++i) {
    RecordPair(fmt::format("op{}", i), 1);
  }
  RecordPair("blocks");
  store_.BlockReads();
  const uint64_t id = Start();
  const v1::Comparison running = AwaitBatch(id);
  EXPECT_EQ(running.state(), v1::Comparison::RUNNING);
  EXPECT_EQ(running.total_count(), static_cast<int64_t>(kRowsPerBatch) + 11);
  EXPECT_GE(static_cast<int64_t>(jobs_->Rows(id, 0, 1000)->size()),
            RowCount(running));

  // A waiting reader receives every row once, in order, and then the end.
  std::vector<int64_t> seen;
  std::thread reader([&] {
    while (true) {
      const auto view = jobs_->Get(id);
      ASSERT_TRUE(view.ok());
      const auto rows = jobs_->Rows(id, seen.size(), 100);
      ASSERT_TRUE(rows.ok());
      for (const v1::ComparisonRow& row : *rows) seen.push_back(row.row());
      if (!rows->empty()) continue;
      if (view->comparison.state() == v1::Comparison::DONE) break;
      Gate changed;
      jobs_->AwaitChange(id, view->version, [&changed] { changed.Open(); });
      changed.Await();
    }
  });
  store_.UnblockReads();
  reader.join();
  ASSERT_EQ(seen.size(), kRowsPerBatch + 11);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], static_cast<int64_t>(i));
  }
}

TEST_F(ComparisonJobsTest, StopWaitingWithdrawsTheWake) {
  RecordPair("a");
  store_.BlockReads();
  const uint64_t id = Start();
  store_.AwaitRead();
  Gate withdrawn;
  const uint64_t waiter = jobs_->AwaitChange(id, jobs_->Get(id)->version,
                                             [&] { withdrawn.Open(); });
  ASSERT_NE(waiter, 0u);
  EXPECT_TRUE(jobs_->StopWaiting(id, waiter));
  EXPECT_FALSE(jobs_->StopWaiting(id, waiter));
  store_.UnblockReads();
  AwaitEnd(*jobs_, id);
  EXPECT_FALSE(withdrawn.is_open());
}

TEST_F(ComparisonJobsTest, AwaitChangeWakesAtOnceWhereNothingWillChange) {
  const uint64_t id = Start();
  AwaitEnd(*jobs_, id);
  Gate ended;
  Gate unknown;
  EXPECT_EQ(jobs_->AwaitChange(id, 1000, [&] { ended.Open(); }), 0u);
  EXPECT_EQ(jobs_->AwaitChange(99, 0, [&] { unknown.Open(); }), 0u);
  EXPECT_TRUE(ended.is_open());
  EXPECT_TRUE(unknown.is_open());
}

TEST_F(ComparisonJobsTest, StoreThatRefusesRowsFailsTheComparison) {
  RecordPair("a");
  RecordPair("b");
  store_.BlockReads();
  const uint64_t id = Start();
  store_.AwaitRead();
  store_.FailComparisonWrites(WithReason(
      absl::ResourceExhaustedError("disk full"), ErrorReason::kDiskFull));
  store_.UnblockReads();
  const v1::Comparison ended = AwaitEnd(*jobs_, id);
  EXPECT_EQ(ended.state(), v1::Comparison::FAILED);
  EXPECT_THAT(ended.error(), HasSubstr("disk full"));
  EXPECT_EQ(static_cast<size_t>(RowCount(ended)),
            jobs_->Rows(id, 0, 10)->size());
  EXPECT_FALSE(jobs_->Start({}, Plan()).ok());
}

TEST_F(ComparisonJobsTest, ListIsInOrderAndPaged) {
  for (int i = 0; i < 3; ++i) AwaitEnd(*jobs_, Start());
  const auto names = [this](uint64_t after, size_t limit) {
    const auto list = jobs_->List(after, limit);
    EXPECT_TRUE(list.ok());
    std::vector<std::string> out;
    for (const v1::Comparison& comparison : *list) {
      out.push_back(comparison.name());
    }
    return out;
  };
  EXPECT_THAT(names(0, 2), ElementsAre("c-000001", "c-000002"));
  EXPECT_THAT(names(2, 2), ElementsAre("c-000003"));
}

TEST(ComparisonNameTest, OnlyCanonicalNamesParse) {
  EXPECT_EQ(FormatComparisonName(1), "c-000001");
  EXPECT_EQ(FormatComparisonName(12345678), "c-12345678");
  EXPECT_EQ(ParseComparisonName("c-000001"), 1u);
  EXPECT_EQ(ParseComparisonName("c-12345678"), 12345678u);
  for (const std::string_view name :
       {"", "c-", "c-1", "c-0000001", "c--00001", "c-00000x", "C-000001",
        "c-99999999999999999999999"}) {
    EXPECT_FALSE(ParseComparisonName(name).has_value()) << name;
  }
}

constexpr std::chrono::milliseconds kSoon{5};
constexpr std::chrono::milliseconds kGrace{1000};
constexpr std::chrono::hours kNever{1};
constexpr std::chrono::seconds kPatience{10};

TEST_F(ComparisonJobsTest, FollowersThatWaitLeaveTheirThreadToOthers) {
  Open({.active_max = 1, .follow_interval = kSoon});
  RecordToken(0);
  RecordToken(1);
  const uint64_t first = Follow();
  const uint64_t second = Follow();
  AwaitRows(first, 1);
  AwaitRows(second, 1);
  EXPECT_EQ(AwaitEnd(*jobs_, Start()).state(), v1::Comparison::DONE);
  EXPECT_EQ(Get(first).state(), v1::Comparison::RUNNING);

  RecordToken(2);
  AwaitRows(first, 2);
  AwaitRows(second, 2);
  ASSERT_TRUE(store_.SealRun("g").ok());
  ASSERT_TRUE(store_.SealRun("t").ok());
  for (const uint64_t id : {first, second}) {
    const v1::Comparison ended = AwaitEnd(*jobs_, id);
    EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
    EXPECT_EQ(ended.pass_count(), 3);
    EXPECT_EQ(jobs_->Rows(id, 0, 10)->size(), 3u);
  }
}

TEST_F(ComparisonJobsTest, FollowerWithoutReaderEndsUnlessDetached) {
  Open({.follow_interval = kSoon, .reader_grace = kGrace});
  RecordToken(0);
  RecordToken(1);
  const uint64_t read = Follow();
  const std::shared_ptr<void> reader = jobs_->AddReader(read);
  const uint64_t detached = Follow(/*detach=*/true);
  const uint64_t forsaken = Follow();
  const v1::Comparison ended = AwaitEnd(*jobs_, forsaken);
  EXPECT_EQ(ended.state(), v1::Comparison::CANCELLED);
  EXPECT_EQ(ended.error(), kForsaken);
  // Other comparisons had the same time to end.
  RecordToken(2);
  EXPECT_EQ(AwaitRows(detached, 2).state(), v1::Comparison::RUNNING);
  EXPECT_EQ(AwaitRows(read, 2).state(), v1::Comparison::RUNNING);
}

TEST_F(ComparisonJobsTest, FollowerEndsWhenItsLastReaderGoes) {
  Open({.follow_interval = kSoon, .reader_grace = kGrace});
  const uint64_t id = Follow();
  std::shared_ptr<void> one = jobs_->AddReader(id);
  std::shared_ptr<void> other = jobs_->AddReader(id);
  ASSERT_NE(one, nullptr);
  one.reset();
  RecordToken(0);
  RecordToken(1);
  EXPECT_EQ(AwaitRows(id, 1).state(), v1::Comparison::RUNNING);
  other.reset();
  EXPECT_EQ(AwaitEnd(*jobs_, id).state(), v1::Comparison::CANCELLED);
  // The comparison is removed from the list shortly after its end is visible.
  while (jobs_->AddReader(id) != nullptr) std::this_thread::yield();
}

TEST_F(ComparisonJobsTest, WhoReadsOnceInAWhileIsAReader) {
  Open({.follow_interval = kSoon, .reader_grace = kNever});
  const uint64_t id = Follow();
  RecordToken(0);
  RecordToken(1);
  EXPECT_EQ(AwaitRows(id, 1).state(), v1::Comparison::RUNNING);
  EXPECT_EQ(jobs_->Cancel(id)->state(), v1::Comparison::CANCELLED);
  EXPECT_EQ(jobs_->Cancel(id)->error(), "");
}

TEST_F(ComparisonJobsTest, FollowerThatWaitsIsCancelledAndDeletedAtOnce) {
  Open({.follow_interval = kNever, .cancel_wait = kNever});
  RecordToken(0);
  RecordToken(1);
  const uint64_t cancelled = Follow();
  const uint64_t deleted = Follow();
  for (const uint64_t id : {cancelled, deleted}) AwaitRows(id, 1);
  EXPECT_EQ(jobs_->Cancel(cancelled)->state(), v1::Comparison::CANCELLED);
  EXPECT_TRUE(jobs_->Delete(deleted).ok());
  EXPECT_EQ(Reason(jobs_->Get(deleted).status()), "COMPARISON_NOT_FOUND");
}

TEST_F(ComparisonJobsTest, FollowersDeletedAsTheyParkAreGone) {
  Open({.active_max = 2, .followers_max = 1000, .follow_interval = kNever});
  RecordToken(0);
  RecordToken(1);
  for (int i = 0; i < 5000; ++i) {
    const uint64_t id = Follow();
    if (i % 2 == 0) AwaitRows(id, 1);
    EXPECT_TRUE(jobs_->Delete(id).ok());
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (jobs_->live_count() > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline)
        << jobs_->live_count();
    std::this_thread::yield();
  }
}

TEST_F(ComparisonJobsTest, StopEndsFollowersThatWait) {
  Open({.follow_interval = kNever});
  RecordToken(0);
  RecordToken(1);
  const uint64_t id = Follow();
  AwaitRows(id, 1);
  jobs_->Stop();
  EXPECT_EQ(Get(id).state(), v1::Comparison::FAILED);
  EXPECT_EQ(Get(id).error(), kDaemonStopped);
}

TEST_F(ComparisonJobsTest, FollowersAreBoundedApart) {
  RecordPair("a");
  Open({.active_max = 1, .waiting_max = 1, .followers_max = 2});
  store_.BlockReads();
  const uint64_t running = Start();
  store_.AwaitRead();
  const uint64_t waiting = Start();
  Follow();
  const uint64_t last = Follow();
  ComparisonPlan plan = Plan();
  plan.follow = true;
  EXPECT_EQ(Reason(jobs_->Start({}, plan).status()), "COMPARISONS_EXHAUSTED");
  EXPECT_EQ(Reason(jobs_->Start({}, Plan()).status()), "COMPARISONS_EXHAUSTED");
  EXPECT_EQ(Get(running).waiting_behind_count(), 0);
  EXPECT_EQ(Get(waiting).waiting_behind_count(), 1);
  EXPECT_EQ(Get(last).waiting_behind_count(), 3);
  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(*jobs_, waiting).waiting_behind_count(), 0);
  EXPECT_TRUE(jobs_->Start({}, Plan()).ok());
}

}  // namespace
}  // namespace msitd::compare
