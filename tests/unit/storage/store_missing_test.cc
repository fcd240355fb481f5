// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "storage/check/store_check.h"
#include "storage/check/store_view.h"
#include "storage/rebuild/index_rebuild.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of segments whose files are missing although runs need them.
namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

using ::msitd::testing::FaultEnv;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kTensorBytes = 20'000;
// A frame of one such tensor has a page for the head and five for the payload.
constexpr uint64_t kFrameBytes = 6 * 4096;
constexpr int64_t kLongNs = int64_t{60} * 1'000'000'000;

class StoreMissingTest : public StoreTest {
 protected:
  // A segment is full after two frames.
  StoreMissingTest() { options_.segment_bytes_max = 2 * kFrameBytes; }

  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  // Creates two runs. Each has tokens 0 to 3 in two separate segments.
  void Fill() {
    Reopen();
    for (const char* run : {"a", "b"}) {
      ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
      for (int64_t token = 0; token < 4; ++token) {
        ASSERT_TRUE(Append({Tensor(run, token)}).ok());
      }
    }
    ASSERT_TRUE(store_->Close().ok());
    Drop();
  }

  TestTensor Tensor(const std::string& run, int64_t token) {
    return MakeTensor(run, token, "op", kTensorBytes,
                      static_cast<uint32_t>(1 + token + 10 * (run == "b")));
  }

  std::string Hidden(int number) const {
    return dir_ / fmt::format("hidden-{}", number);
  }
  void Hide(int number) { fs::rename(SegmentPath(number), Hidden(number)); }
  void Unhide(int number) { fs::rename(Hidden(number), SegmentPath(number)); }

  void ExpectLost(const std::string& run, int64_t token) {
    const auto bytes = Read(Tensor(run, token).key);
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kDataLoss)
        << bytes.status();
    EXPECT_EQ(Reason(bytes.status()), "SEGMENT_MISSING");
  }

  MissingSegments Missing() { return store_->upkeep().Stats().missing; }
  uint64_t MissingOf(const std::string& run) {
    return store_->runs().GetRun(run)->counters.missing_bytes;
  }

  void Retain(const RetentionPolicy& policy = {}) {
    env_.AdvanceClock(kLongNs);
    for (int i = 0; i < 100; ++i) {
      const auto step = store_->upkeep().Retain(policy);
      ASSERT_TRUE(step.ok()) << step.status();
      if (step->is_done) return;
    }
    ADD_FAILURE() << "retention does not end";
  }

  FaultEnv env_{Env::Posix()};
};

TEST_F(StoreMissingTest, AWholeStoreMissesNothing) {
  Fill();
  Reopen();
  EXPECT_EQ(Missing().count, 0u);
  EXPECT_EQ(MissingOf("a"), 0u);
}

TEST_F(StoreMissingTest, AMissingFileIsLostAndNotExpired) {
  Fill();
  Hide(1);
  Reopen();
  const MissingSegments missing = Missing();
  ASSERT_EQ(missing.count, 1u);
  EXPECT_EQ(missing.bytes, 2 * kTensorBytes);
  EXPECT_EQ(missing.first.at(0).segment, "00000001.seg");
  EXPECT_THAT(missing.first.at(0).runs, ElementsAre("a"));
  EXPECT_EQ(MissingOf("a"), 2 * kTensorBytes);
  EXPECT_EQ(MissingOf("b"), 0u);
  ExpectLost("a", 0);
  ExpectStored(Tensor("a", 2));
  ExpectStored(Tensor("b", 0));
}

TEST_F(StoreMissingTest, TheBytesComeBackWithTheFile) {
  Fill();
  Hide(1);
  Reopen();
  ExpectLost("a", 0);
  Unhide(1);
  ExpectStored(Tensor("a", 0));
  Retain();
  EXPECT_EQ(Missing().count, 0u);
  EXPECT_EQ(MissingOf("a"), 0u);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 4u);
}

TEST_F(StoreMissingTest, AFileThatVanishesWhileTheStoreIsOpenIsFound) {
  Fill();
  Reopen();
  ExpectStored(Tensor("a", 0));
  Hide(1);
  Retain();
  EXPECT_EQ(Missing().count, 1u);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
  ExpectLost("a", 0);
  Unhide(1);
  Retain();
  EXPECT_EQ(Missing().count, 0u);
  ExpectStored(Tensor("a", 0));
}

TEST_F(StoreMissingTest, TheSegmentInUseIsLeftOnceItsFileHasVanished) {
  Reopen();
  ASSERT_TRUE(store_->runs().CreateRun({"a", 0, {}}).ok());
  ASSERT_TRUE(Append({Tensor("a", 0)}).ok());
  Hide(1);
  Retain();
  EXPECT_EQ(Missing().count, 1u);
  ASSERT_TRUE(Append({Tensor("a", 1)}).ok());
  EXPECT_TRUE(fs::exists(SegmentPath(2)));
  ASSERT_TRUE(store_->Close().ok());
  Reopen();
  ExpectStored(Tensor("a", 1));
  ExpectLost("a", 0);
}

TEST_F(StoreMissingTest, AFileThatWasCutShortIsMissing) {
  Fill();
  fs::resize_file(SegmentPath(1), 0);
  fs::resize_file(SegmentPath(2), fs::file_size(SegmentPath(2)) - 4096);
  fs::resize_file(SegmentPath(4), fs::file_size(SegmentPath(4)) - 4096);
  Reopen();
  EXPECT_EQ(Missing().count, 3u);
  EXPECT_EQ(Read(Tensor("a", 0).key).status().code(),
            absl::StatusCode::kDataLoss);
  ExpectStored(Tensor("a", 2));
}

TEST_F(StoreMissingTest, WhatRetentionGaveUpIsNotMissing) {
  Fill();
  Reopen();
  ASSERT_TRUE(
      store_->runs().SetRetention("a", {false, {.token_count = 1}}).ok());
  Retain();
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  EXPECT_EQ(Missing().count, 0u);
  Reopen();
  EXPECT_EQ(Missing().count, 0u);
  EXPECT_EQ(Reason(Read(Tensor("a", 0).key).status()), "TENSOR_EXPIRED");
  // Half of this segment has expired.
  Hide(2);
  Reopen();
  EXPECT_EQ(MissingOf("a"), kTensorBytes);
  EXPECT_EQ(Reason(Read(Tensor("a", 2).key).status()), "TENSOR_EXPIRED");
  ExpectLost("a", 3);
}

TEST_F(StoreMissingTest, DeletedRunsMissNothing) {
  Fill();
  Hide(1);
  Reopen();
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  Retain();
  EXPECT_EQ(Missing().count, 0u);
  Reopen();
  EXPECT_EQ(Missing().count, 0u);
}

TEST_F(StoreMissingTest, RetentionGoesOnWithoutAMissingFile) {
  Fill();
  Reopen();
  ASSERT_TRUE(store_->runs()
                  .SetRetention("a", {false, {.bytes_max = 3 * kTensorBytes}})
                  .ok());
  Retain();
  Hide(1);
  ASSERT_TRUE(store_->runs()
                  .SetRetention("a", {false, {.bytes_max = 1 * kTensorBytes}})
                  .ok());
  Retain();
  EXPECT_EQ(Reason(Read(Tensor("a", 2).key).status()), "TENSOR_EXPIRED");
}

// After a crash, the index has no entries for three segments with two tensors
// each.
class StoreAwaitsSegmentsTest : public StoreMissingTest {
 protected:
  void Crash(int64_t token_count = 6) {
    Reopen();
    ASSERT_TRUE(store_->runs().CreateRun({"a", 0, {}}).ok());
    for (int64_t token = 0; token < token_count; ++token) {
      ASSERT_TRUE(Append({Tensor("a", token)}).ok());
    }
    Drop();
  }

  void ExpectRefused() {
    EXPECT_NE(store_->upkeep().Stats().refusal, "");
    EXPECT_GT(store_->runs().GetRun("a")->counters.unread_place_count, 0u);
    const absl::Status appended = Append({Tensor("a", next_chunk_)});
    --next_chunk_;
    for (const absl::Status& status :
         {appended, store_->log().Probe(),
          store_->log().CommittedChunkCount("a", 0, kStream).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_EQ(Reason(status), "STORAGE_FAILED");
      EXPECT_THAT(status.message(), HasSubstr("msitd-inspect rebuild"));
    }
  }

  // Expects that all tensors are stored and that more can be appended.
  void ExpectWhole(int64_t token_count = 6) {
    EXPECT_EQ(store_->upkeep().Stats().refusal, "");
    EXPECT_EQ(store_->runs().GetRun("a")->counters.unread_place_count, 0u);
    EXPECT_EQ(Missing().count, 0u);
    const auto committed = store_->log().CommittedChunkCount("a", 0, kStream);
    ASSERT_TRUE(committed.ok()) << committed.status();
    EXPECT_EQ(*committed, static_cast<uint64_t>(token_count));
    for (int64_t token = 0; token < token_count; ++token) {
      ExpectStored(Tensor("a", token));
    }
    ASSERT_TRUE(Append({Tensor("a", token_count)}).ok());
    ExpectStored(Tensor("a", token_count));
  }
};

TEST_F(StoreAwaitsSegmentsTest, NothingPassesAMissingSegment) {
  Crash();
  Hide(2);
  Reopen();
  ExpectRefused();
  ASSERT_EQ(Missing().count, 1u);
  EXPECT_EQ(Missing().first.at(0).segment, "00000002.seg");
  ExpectStored(Tensor("a", 1));
  // It is not indexed before the frames of the missing segment.
  ExpectAbsent(Tensor("a", 4).key);
  // msitd-inspect reports it as well.
  Drop();
  std::vector<std::string> problems;
  {
    auto view = StoreView::Open(options_.directory, env_);
    ASSERT_TRUE(view.ok()) << view.status();
    const auto report = CheckStore(*view, [&](const StoreProblem& problem) {
      problems.push_back(problem.file);
    });
    ASSERT_TRUE(report.ok()) << report.status();
  }
  EXPECT_THAT(problems, ElementsAre("00000002.seg"));
  Reopen();
  // Neither upkeep nor another crash changes the state.
  Retain();
  ASSERT_TRUE(store_->upkeep().Share().ok());
  Reopen();
  ExpectRefused();
  Unhide(2);
  Reopen();
  ExpectWhole();
}

TEST_F(StoreAwaitsSegmentsTest, TheLogIsReadOnWithoutARestart) {
  Crash();
  Hide(2);
  Reopen();
  Unhide(2);
  Retain();
  Retain();
  ExpectWhole();
}

TEST_F(StoreAwaitsSegmentsTest, AFileThatIsBeingCopiedIsNotReadBeforeItsEnd) {
  Crash();
  const uint64_t size = fs::file_size(SegmentPath(3));
  Hide(3);
  Reopen();
  ExpectRefused();
  fs::copy_file(Hidden(3), SegmentPath(3));
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{4096 + kFrameBytes}}) {
    fs::resize_file(SegmentPath(3), bytes);
    Retain();
    ExpectRefused();
  }
  fs::copy_file(Hidden(3), SegmentPath(3),
                fs::copy_options::overwrite_existing);
  ASSERT_EQ(fs::file_size(SegmentPath(3)), size);
  Retain();
  Retain();
  ExpectWhole();
}

TEST_F(StoreAwaitsSegmentsTest, ASegmentThatWasCutShortIsAwaitedToo) {
  Crash();
  fs::copy_file(SegmentPath(2), Hidden(2));
  fs::resize_file(SegmentPath(2), 4096 + kFrameBytes);
  Reopen();
  ExpectRefused();
  ExpectAbsent(Tensor("a", 4).key);
  fs::rename(Hidden(2), SegmentPath(2));
  Reopen();
  ExpectWhole();
}

TEST_F(StoreAwaitsSegmentsTest, WithoutAnySegmentNumbersAreNotUsedAgain) {
  Crash();
  for (const int number : {1, 2, 3}) Hide(number);
  Reopen();
  ExpectRefused();
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  EXPECT_FALSE(fs::exists(SegmentPath(4)));
  // The segments return one by one, the last one first.
  for (const int number : {3, 1, 2}) {
    Reopen();
    ExpectRefused();
    Unhide(number);
  }
  Reopen();
  ExpectWhole();
  EXPECT_TRUE(fs::exists(SegmentPath(4)));
}

TEST_F(StoreAwaitsSegmentsTest, TheLastSegmentIsAwaitedAlthoughNoOtherNamesIt) {
  Crash(5);
  Hide(3);
  Reopen();
  ExpectRefused();
  ExpectStored(Tensor("a", 3));
  Unhide(3);
  Reopen();
  ExpectWhole(5);
}

TEST_F(StoreAwaitsSegmentsTest, ADeletedRunTakesNoFramesOfOthersAlong) {
  Reopen();
  for (const char* run : {"b", "a"}) {
    ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
  }
  ASSERT_TRUE(Append(TestChunks(1, 0, {Tensor("b", 0)})).ok());
  ASSERT_TRUE(store_->runs().SealRun("b").ok());
  ASSERT_TRUE(store_->Close().ok());
  // The index contains run b up to a position. All of run a is after that
  // position.
  Reopen();
  ASSERT_TRUE(store_->runs().CreateRun({"c", 0, {}}).ok());
  ASSERT_TRUE(Append(TestChunks(2, 0, {Tensor("c", 0)})).ok());
  for (int64_t token = 0; token < 3; ++token) {
    ASSERT_TRUE(Append({Tensor("a", token)}).ok());
  }
  Drop();
  Hide(3);
  Reopen();
  ExpectRefused();
  ASSERT_TRUE(store_->runs().DeleteRun("b").ok());
  ASSERT_TRUE(store_->runs().DeleteRun("c").ok());
  Retain();
  EXPECT_TRUE(fs::exists(SegmentPath(2)));
  Unhide(3);
  Reopen();
  ExpectWhole(3);
  Retain();
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
}

TEST_F(StoreAwaitsSegmentsTest, WhatTheStoreItselfRemovedIsNotAwaited) {
  Crash(4);
  Reopen();
  ASSERT_TRUE(Append({Tensor("a", 4)}).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  Retain();
  Drop();
  Reopen();
  EXPECT_EQ(store_->upkeep().Stats().refusal, "");
  EXPECT_EQ(Missing().count, 0u);
  ASSERT_TRUE(store_->runs().CreateRun({"b", 0, {}}).ok());
  ASSERT_TRUE(Append(TestChunks(9, 0, {Tensor("b", 0)})).ok());
  // No segment number is reused, not even after the segment was removed.
  EXPECT_TRUE(fs::exists(SegmentPath(4)));
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
}

TEST_F(StoreAwaitsSegmentsTest, ARebuiltIndexGivesUpWhatIsMissing) {
  Crash();
  Hide(2);
  Hide(3);
  Reopen();
  ExpectRefused();
  Drop();
  RebuildOptions rebuild;
  rebuild.directory = options_.directory;
  const auto report = RebuildIndex(rebuild, env_, [](const StoreProblem&) {});
  ASSERT_TRUE(report.ok()) << report.status();
  Reopen();
  EXPECT_EQ(store_->upkeep().Stats().refusal, "");
  ExpectStored(Tensor("a", 1));
  ASSERT_TRUE(Append(TestChunks(9, 0, {Tensor("a", 9)})).ok());
  // Lost files may be found later.
  EXPECT_TRUE(fs::exists(SegmentPath(4)));
  EXPECT_FALSE(fs::exists(SegmentPath(2)));
}

}  // namespace
}  // namespace msitd::storage
