// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of the problems that Upkeep::Verify finds, and of the data that it
// ignores.
namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

using ::msitd::testing::FaultEnv;
using ::testing::HasSubstr;

constexpr uint64_t kTensorBytes = 20'000;
constexpr uint64_t kFrameBytes = 6 * 4096;
constexpr uint64_t kHeadBytes = 4096;
constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;

class StoreVerifyTest : public StoreTest {
 protected:
  // A segment is full after two frames.
  StoreVerifyTest() { options_.segment_bytes_max = 2 * kFrameBytes; }

  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  // Opens a store with two full segments of the run, and one that accepts more
  // frames.
  void OpenFilled(const std::string& run) {
    Reopen();
    ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
    Fill(run, 0, 5);
  }

  void Fill(const std::string& run, int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      ASSERT_TRUE(Append({Tensor(run, token)}).ok());
    }
  }

  TestTensor Tensor(const std::string& run, int64_t token) {
    return MakeTensor(run, token, "op", kTensorBytes,
                      static_cast<uint32_t>(1 + token));
  }

  // Flips a bit of a file. The frames of a segment begin after its first page.
  void Spoil(int segment, uint64_t offset) {
    std::fstream file(SegmentPath(segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  // Verifies to the end of a round and returns how many frames were read.
  uint64_t VerifyAll(int64_t interval_ns = 0) {
    uint64_t frame_count = 0;
    for (int steps = 0; steps < 1000; ++steps) {
      const auto step = store_->upkeep().Verify({1, interval_ns});
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return frame_count;
      frame_count += step->frame_count;
      if (step->is_done) return frame_count;
    }
    ADD_FAILURE() << "the round does not end";
    return frame_count;
  }

  VerifyStats Found() { return store_->upkeep().Stats().verify; }

  FaultEnv env_{Env::Posix()};
};

TEST_F(StoreVerifyTest, ASoundStoreIsReadOnceARound) {
  OpenFilled("r");
  EXPECT_EQ(VerifyAll(), 4u);
  EXPECT_EQ(Found().frame_count, 4u);
  EXPECT_EQ(Found().bytes, 4 * kFrameBytes);
  EXPECT_EQ(Found().finding_count, 0u);
  EXPECT_EQ(Found().remaining_bytes, 0u);
  EXPECT_NE(Found().round_end_ns, 0);
  // The next round is due in an hour, even after a restart.
  EXPECT_EQ(VerifyAll(kHourNs), 0u);
  Drop();
  Reopen();
  EXPECT_EQ(VerifyAll(kHourNs), 0u);
  EXPECT_NE(Found().round_end_ns, 0);
  EXPECT_EQ(VerifyAll(), 5u);
}

TEST_F(StoreVerifyTest, ARoundGoesOnAfterARestart) {
  OpenFilled("r");
  // One step for each frame of the first segment, and one to finish the
  // segment.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store_->upkeep().Verify({1, 0}).ok());
  }
  EXPECT_EQ(Found().frame_count, 2u);
  EXPECT_EQ(Found().remaining_bytes, 2 * kFrameBytes + 4096);
  Drop();
  Reopen();
  EXPECT_EQ(VerifyAll(), 3u);
}

TEST_F(StoreVerifyTest, BytesThatChangedAreFoundAndNamed) {
  OpenFilled("r");
  const uint64_t frame =
      4096 + kFrameBytes;  // The second frame of the segment.
  Spoil(2, frame + kHeadBytes + 123);
  EXPECT_EQ(VerifyAll(), 4u);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Found().finding_count, 1u);
    const VerifyFinding finding = Found().findings.at(0);
    EXPECT_EQ(finding.segment, "00000002.seg");
    EXPECT_EQ(finding.offset, frame);
    EXPECT_EQ(finding.run, "r");
    EXPECT_THAT(finding.problem, HasSubstr("record 1 of 1"));
    // After a restart, the finding is known immediately, and it is not repeated
    // later.
    Drop();
    Reopen();
    VerifyAll(kHourNs);
    VerifyAll();
  }
}

TEST_F(StoreVerifyTest, AHeadThatChangedIsFound) {
  OpenFilled("r");
  Spoil(1, 4096 + 40);
  VerifyAll();
  ASSERT_EQ(Found().finding_count, 1u);
  EXPECT_EQ(Found().findings[0].offset, 4096u);
  EXPECT_EQ(Found().findings[0].run, "");
  EXPECT_THAT(Found().findings[0].problem, HasSubstr("no frame for"));
}

TEST_F(StoreVerifyTest, AFindingGoesWithItsRunAndIfTheBytesAreRightAgain) {
  OpenFilled("r");
  ASSERT_TRUE(store_->runs().CreateRun({"s", 0, {}}).ok());
  Fill("s", 0, 2);
  Spoil(1, 4096 + kHeadBytes);
  Spoil(3, 4096 + kFrameBytes + kHeadBytes);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 2u);
  ASSERT_TRUE(store_->runs().DeleteRun("s").ok());
  ASSERT_TRUE(store_->upkeep().Verify({1, kHourNs}).ok());
  EXPECT_EQ(Found().finding_count, 1u);
  Spoil(1, 4096 + kHeadBytes);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 0u);
}

TEST_F(StoreVerifyTest, BytesThatWereGivenUpAreNoFinding) {
  OpenFilled("r");
  for (int i = 0; i < 100; ++i) {
    const auto step = store_->upkeep().Retain(
        {.run = {
             .bytes_max = kTensorBytes, .age_max_ns = 0, .token_count = 0}});
    ASSERT_TRUE(step.ok()) << step.status();
    if (step->is_done) break;
  }
  EXPECT_GT(store_->upkeep().Stats().expired_bytes, 2 * kTensorBytes);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 0u);
}

TEST_F(StoreVerifyTest, BytesThatAreKeptElsewhereAreNoFinding) {
  Reopen();
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  for (int64_t token = 0; token < 5; ++token) {
    TestTensor same = Tensor("r", token);
    same.bytes = Tensor("r", 0).bytes;
    ASSERT_TRUE(Append({same}).ok());
  }
  for (int i = 0; i < 100; ++i) {
    const auto step = store_->upkeep().Share();
    ASSERT_TRUE(step.ok()) << step.status();
    if (step->is_done) break;
  }
  EXPECT_GT(store_->upkeep().Stats().shared_bytes, 0u);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 0u);
}

TEST_F(StoreVerifyTest, ARecordThatCameAgainIsNoFinding) {
  OpenFilled("r");
  ASSERT_TRUE(Append({Tensor("r", 0)}).ok());
  Fill("r", 6, 8);
  // Damages the second copy of the record. Segment 3 has token 4 and this copy.
  Spoil(3, 4096 + kFrameBytes + kHeadBytes);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 0u);
}

TEST_F(StoreVerifyTest, ASegmentThatCannotBeReadHoldsUpNoOther) {
  OpenFilled("r");
  fs::remove(SegmentPath(1));
  fs::create_directory(SegmentPath(1));
  Spoil(2, 4096 + kHeadBytes);
  VerifyAll();
  ASSERT_EQ(Found().finding_count, 2u);
  EXPECT_EQ(Found().findings[0].segment, "00000001.seg");
  EXPECT_EQ(Found().findings[1].run, "r");
}

TEST_F(StoreVerifyTest, AnOperationThatFailsOnceEndsNoRoundAndStaysNoFinding) {
  OpenFilled("r");
  for (uint64_t operation = 1; operation < 200; ++operation) {
    env_.FailAt(operation, absl::UnavailableError("broken"), false);
    int errors = 0;
    while (true) {
      const auto step = store_->upkeep().Verify({1, 0});
      errors += step.ok() ? 0 : 1;
      ASSERT_LT(errors, 3) << step.status();
      if (step.ok() && step->is_done) break;
    }
    const bool was_reached = env_.operation_count() >= operation;
    env_.StopFailing();
    VerifyAll();
    EXPECT_EQ(Found().finding_count, 0u);
    if (!was_reached) return;
  }
  FAIL() << "a round takes too many operations";
}

TEST_F(StoreVerifyTest, WhatAFailedAppendLeftBehindTheEndIsNoFinding) {
  OpenFilled("r");
  int failed_count = 0;
  for (uint64_t operation = 1; operation <= 6; ++operation) {
    env_.FailAt(operation, absl::UnavailableError("broken"), false);
    const absl::Status status =
        Append(TestChunks(kStream, next_chunk_, {Tensor("r", 5)}));
    env_.StopFailing();
    if (status.ok()) break;
    ++failed_count;
  }
  EXPECT_GT(failed_count, 1);
  ++next_chunk_;
  Fill("r", 6, 9);
  VerifyAll();
  EXPECT_EQ(Found().finding_count, 0u);
}

}  // namespace
}  // namespace msitd::storage
