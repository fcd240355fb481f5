// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

// Segments whose files are not there although runs need them.
namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

using ::msitd::testing::FaultEnv;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kTensorBytes = 20'000;
// A frame of one such tensor: a page of head, five of payload.
constexpr uint64_t kFrameBytes = 6 * 4096;
constexpr int64_t kLongNs = int64_t{60} * 1'000'000'000;

class StoreMissingTest : public StoreTest {
 protected:
  // Two frames make a segment full.
  StoreMissingTest() { options_.segment_bytes_max = 2 * kFrameBytes; }

  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  // Two runs, each with tokens 0 to 3 in two segments of its own.
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
  // Half of this one was given up.
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

TEST_F(StoreMissingTest, SegmentsBeyondTheIndexAreCountedAsLost) {
  Reopen();
  ASSERT_TRUE(store_->runs().CreateRun({"a", 0, {}}).ok());
  for (int64_t token = 0; token < 6; ++token) {
    ASSERT_TRUE(Append({Tensor("a", token)}).ok());
  }
  // A crash: the index has nothing of the frames.
  Drop();
  Hide(2);
  Reopen();
  EXPECT_EQ(store_->upkeep().Stats().corrupt_frame_count, 1u);
  ExpectStored(Tensor("a", 0));
  ExpectAbsent(Tensor("a", 2).key);
}

}  // namespace
}  // namespace msitd::storage
