// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>

#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::IsEmpty;

namespace fs = std::filesystem;

class StoreDeleteTest : public StoreTest {
 protected:
  // Fills two segments and begins a third one. The first one contains only run
  // `a`.
  void Fill() {
    options_.segment_bytes_max = 64 << 10;
    OpenWithRun("a");
    ASSERT_TRUE(store_->runs().CreateRun({"b", 0, {}}).ok());
    ASSERT_TRUE(
        Append(TestChunks(1, 0, {MakeTensor("a", 0, "x", 70000)})).ok());
    ASSERT_TRUE(Append(TestChunks(1, 1, {MakeTensor("a", 1, "x", 100)})).ok());
    ASSERT_TRUE(Append(TestChunks(2, 0, {in_b_})).ok());
    ASSERT_TRUE(Append(TestChunks(1, 2, {MakeTensor("a", 2, "x", 100)})).ok());
  }

  const TestTensor in_b_ = MakeTensor("b", 0, "y", 70000);
};

TEST_F(StoreDeleteTest, RunGoesAndSegmentsOnlyItUsedWithIt) {
  Fill();
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  EXPECT_EQ(Reason(store_->runs().GetRun("a").status()), "RUN_NOT_FOUND");
  EXPECT_EQ(Reason(store_->runs().DeleteRun("a")), "RUN_NOT_FOUND");
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  EXPECT_TRUE(fs::exists(SegmentPath(2)));
  EXPECT_FALSE(fs::exists(SegmentPath(3)));
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 1u);
  ExpectStored(in_b_);
}

TEST_F(StoreDeleteTest, NewRunOfTheSameNameIsEmptyAndHasAnotherId) {
  Fill();
  const RunId before = store_->runs().GetRun("a")->id;
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  const auto run = store_->runs().CreateRun({"a", 0, {}});
  ASSERT_TRUE(run.ok());
  EXPECT_NE(run->id, before);
  EXPECT_THAT(ScanKeys("a"), IsEmpty());
  const TestTensor again = MakeTensor("a", 0, "x", 500, 9);
  ASSERT_TRUE(Append(TestChunks(1, 0, {again})).ok());
  ExpectStored(again);
}

TEST_F(StoreDeleteTest, DeletionSurvivesACrash) {
  Fill();
  const RunId before = store_->runs().GetRun("b")->id;
  ASSERT_TRUE(store_->runs().DeleteRun("b").ok());
  Drop();
  Open();
  EXPECT_FALSE(store_->runs().GetRun("b").ok());
  EXPECT_EQ(store_->runs().GetRun("a")->counters.tensor_count, 3u);
  EXPECT_NE(store_->runs().CreateRun({"b", 0, {}})->id, before);
}

TEST_F(StoreDeleteTest, PartsOfADeletedRunHaveExpired) {
  Fill();
  const auto info = read_->GetTensor(MakeTensor("a", 0, "x", 70000).key);
  ASSERT_TRUE(info.ok());
  RunReader& run = **read_->Open("a");
  AlignedBuffer buffer;
  ASSERT_TRUE(run.ReadPart(info->parts[0], buffer).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  const auto bytes = run.ReadPart(info->parts[0], buffer);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED");
}

TEST_F(StoreDeleteTest, ReaderStandsForTheRunThatItWasOpenedFor) {
  Fill();
  const TensorKey key = MakeTensor("a", 0, "x", 70000).key;
  RunReader& run = **read_->Open("a");
  EXPECT_EQ(run.name(), "a");
  EXPECT_TRUE(run.GetTensor(key).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"a", 0, {}}).ok());
  EXPECT_TRUE(read_->ListRanks("a")->empty());
  for (const absl::Status& status :
       {run.GetInfo().status(), run.GetTensor(key).status(),
        run.Scan({}, "").status(), run.ListRanks().status(),
        run.ListCoverage().status(), run.ListCoordinates({}).status(),
        run.ListPlacements().status()}) {
    EXPECT_EQ(Reason(status), "RUN_NOT_FOUND") << status;
  }
}

TEST_F(StoreDeleteTest, ScanInProgressSeesTheRunAsItWas) {
  Fill();
  auto scan = read_->Scan("a", {}, "");
  ASSERT_TRUE(scan.ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TensorInfo info;
  int count = 0;
  while (*(*scan)->Next(info)) ++count;
  EXPECT_EQ(count, 3);
}

// An Append to `a` hangs on the disk.
class SlowDiskTest : public StoreDeleteTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(TryOpen(env_).ok());
    for (const char* run : {"a", "b", "c"}) {
      ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
    }
    ASSERT_TRUE(Append(TestChunks(2, 0, {in_b_})).ok());
    env_.HangSyncs();
    append_ = std::async(std::launch::async,
                         [this] { return Append(TestChunks(1, 0, {in_a_})); });
    env_.AwaitHang();
  }
  void TearDown() override {
    env_.ReleaseSyncs();
    if (append_.valid()) append_.wait();
    Drop();
  }

  // Returns true if `work` returns within a generous time while the disk hangs.
  // The disk continues afterwards.
  bool ReturnsMeanwhile(const std::function<void()>& work) {
    const std::future<void> done = std::async(std::launch::async, work);
    const bool is_done =
        done.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
    if (!is_done) env_.ReleaseSyncs();
    done.wait();
    return is_done;
  }

  msitd::testing::FaultEnv env_{Env::Posix()};
  const TestTensor in_a_ = MakeTensor("a", 0, "x", 100);
  std::future<absl::Status> append_;
};

TEST_F(SlowDiskTest, OtherRunsAreMadeSealedAndDeletedMeanwhile) {
  // Retention waits for the disk while it holds its locks.
  std::future<void> retain = std::async(std::launch::async, [this] {
    (void)store_->upkeep().Retain(RetentionPolicy());
  });
  const bool returns = ReturnsMeanwhile([this] {
    EXPECT_TRUE(store_->runs().CreateRun({"d", 4, {}}).ok());
    EXPECT_EQ(store_->log().CommittedChunkCount("d", 0, 7).value_or(1), 0u);
    EXPECT_TRUE(store_->runs().SealRun("c").ok());
    EXPECT_TRUE(store_->runs().DeleteRun("b").ok());
    EXPECT_EQ(Reason(store_->runs().GetRun("b").status()), "RUN_NOT_FOUND");
    EXPECT_TRUE(store_->runs().CreateRun({"b", 4, {}}).ok());
    EXPECT_THAT(ScanKeys("b"), IsEmpty());
    EXPECT_EQ(store_->runs().ListRuns("", 9)->size(), 4u);
  });
  env_.ReleaseSyncs();
  EXPECT_TRUE(append_.get().ok());
  retain.wait();
  EXPECT_TRUE(returns);
  ExpectStored(in_a_);
}

TEST_F(SlowDiskTest, WhatWasDeletedMeanwhileGoesWithTheNextStepOfRetention) {
  ASSERT_TRUE(ReturnsMeanwhile(
      [this] { EXPECT_TRUE(store_->runs().DeleteRun("b").ok()); }));
  env_.ReleaseSyncs();
  ASSERT_TRUE(append_.get().ok());
  // Both runs are in the same segment.
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  while (!store_->upkeep().Retain(RetentionPolicy())->is_done) {
  }
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
}

TEST_F(SlowDiskTest, WhatWasDeletedMeanwhileGoesAfterACrashToo) {
  const RunId before = store_->runs().GetRun("b")->id;
  ASSERT_TRUE(ReturnsMeanwhile(
      [this] { EXPECT_TRUE(store_->runs().DeleteRun("b").ok()); }));
  env_.ReleaseSyncs();
  ASSERT_TRUE(append_.get().ok());
  ASSERT_TRUE(TryOpen(env_).ok());
  EXPECT_EQ(Reason(store_->runs().GetRun("b").status()), "RUN_NOT_FOUND");
  ASSERT_TRUE(store_->runs().CreateRun({"b", 0, {}}).ok());
  EXPECT_NE(store_->runs().GetRun("b")->id, before);
  EXPECT_THAT(ScanKeys("b"), IsEmpty());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  while (!store_->upkeep().Retain(RetentionPolicy())->is_done) {
  }
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
}

TEST_F(SlowDiskTest, SegmentOfARunThatWasHiddenAloneGoesAfterACrash) {
  env_.ReleaseSyncs();
  ASSERT_TRUE(append_.get().ok());
  options_.segment_bytes_max = 64 << 10;
  ASSERT_TRUE(TryOpen(env_).ok());
  ASSERT_TRUE(Append(TestChunks(2, 1, {MakeTensor("b", 1, "y", 70000)})).ok());
  env_.HangSyncs();
  append_ = std::async(std::launch::async, [this] {
    return Append(TestChunks(1, 1, {MakeTensor("a", 1, "x", 100)}));
  });
  env_.AwaitHang();
  ASSERT_TRUE(ReturnsMeanwhile(
      [this] { EXPECT_TRUE(store_->runs().DeleteRun("b").ok()); }));
  env_.ReleaseSyncs();
  ASSERT_TRUE(append_.get().ok());
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
  ASSERT_TRUE(TryOpen(env_).ok());
  while (!store_->upkeep().Retain(RetentionPolicy())->is_done) {
  }
  // The remaining segments contain run a.
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 2u);
  EXPECT_FALSE(fs::exists(SegmentPath(2)));
}

TEST_F(SlowDiskTest, TheRunThatIsAppendedToWaits) {
  std::future<absl::Status> deletion = std::async(
      std::launch::async, [this] { return store_->runs().DeleteRun("a"); });
  std::future<void> others = std::async(std::launch::async, [this] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(store_->runs().GetRun("a").ok());
  });
  others.wait();
  env_.ReleaseSyncs();
  EXPECT_TRUE(append_.get().ok());
  EXPECT_TRUE(deletion.get().ok());
  EXPECT_FALSE(store_->runs().GetRun("a").ok());
}

TEST_F(StoreDeleteTest, AppendGoesOnAfterItsSegmentWasRemoved) {
  OpenWithRun("a");
  ASSERT_TRUE(store_->runs().CreateRun({"b", 0, {}}).ok());
  ASSERT_TRUE(Append(TestChunks(1, 0, {MakeTensor("a", 0, "x", 100)})).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
  ASSERT_TRUE(Append(TestChunks(2, 0, {in_b_})).ok());
  Drop();
  Open();
  ExpectStored(in_b_);
}

}  // namespace
}  // namespace msitd::storage
