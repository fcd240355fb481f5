// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::IsEmpty;

namespace fs = std::filesystem;

class ChunkStoreDeleteTest : public StoreTest {
 protected:
  // Fills two segments and begins a third one; `a` has the first to itself.
  void Fill() {
    options_.segment_bytes_max = 64 << 10;
    OpenWithRun("a");
    ASSERT_TRUE(store_->CreateRun({"b", 0, {}}).ok());
    ASSERT_TRUE(
        Append(TestChunks(1, 0, {MakeTensor("a", 0, "x", 70000)})).ok());
    ASSERT_TRUE(Append(TestChunks(1, 1, {MakeTensor("a", 1, "x", 100)})).ok());
    ASSERT_TRUE(Append(TestChunks(2, 0, {in_b_})).ok());
    ASSERT_TRUE(Append(TestChunks(1, 2, {MakeTensor("a", 2, "x", 100)})).ok());
  }

  const TestTensor in_b_ = MakeTensor("b", 0, "y", 70000);
};

TEST_F(ChunkStoreDeleteTest, RunGoesAndSegmentsOnlyItUsedWithIt) {
  Fill();
  EXPECT_EQ(store_->Stats().segment_count, 3u);
  ASSERT_TRUE(store_->DeleteRun("a").ok());
  EXPECT_EQ(Reason(store_->GetRun("a").status()), "RUN_NOT_FOUND");
  EXPECT_EQ(Reason(store_->DeleteRun("a")), "RUN_NOT_FOUND");
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  EXPECT_TRUE(fs::exists(SegmentPath(2)));
  EXPECT_FALSE(fs::exists(SegmentPath(3)));
  EXPECT_EQ(store_->Stats().segment_count, 1u);
  ExpectStored(in_b_);
}

TEST_F(ChunkStoreDeleteTest, NewRunOfTheSameNameIsEmptyAndHasAnotherId) {
  Fill();
  const RunId before = store_->GetRun("a")->id;
  ASSERT_TRUE(store_->DeleteRun("a").ok());
  const auto run = store_->CreateRun({"a", 0, {}});
  ASSERT_TRUE(run.ok());
  EXPECT_NE(run->id, before);
  EXPECT_THAT(ScanKeys("a"), IsEmpty());
  const TestTensor again = MakeTensor("a", 0, "x", 500, 9);
  ASSERT_TRUE(Append(TestChunks(1, 0, {again})).ok());
  ExpectStored(again);
}

TEST_F(ChunkStoreDeleteTest, DeletionSurvivesACrash) {
  Fill();
  const RunId before = store_->GetRun("b")->id;
  ASSERT_TRUE(store_->DeleteRun("b").ok());
  Drop();
  Open();
  EXPECT_FALSE(store_->GetRun("b").ok());
  EXPECT_EQ(store_->GetRun("a")->counters.tensor_count, 3u);
  EXPECT_NE(store_->CreateRun({"b", 0, {}})->id, before);
}

TEST_F(ChunkStoreDeleteTest, PartsOfADeletedRunHaveExpired) {
  Fill();
  const auto info = store_->GetTensor(MakeTensor("a", 0, "x", 70000).key);
  ASSERT_TRUE(info.ok());
  AlignedBuffer buffer;
  ASSERT_TRUE(store_->ReadPart(info->parts[0], buffer).ok());
  ASSERT_TRUE(store_->DeleteRun("a").ok());
  const auto bytes = store_->ReadPart(info->parts[0], buffer);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED");
}

TEST_F(ChunkStoreDeleteTest, ScanInProgressSeesTheRunAsItWas) {
  Fill();
  auto scan = store_->Scan("a", {}, "");
  ASSERT_TRUE(scan.ok());
  ASSERT_TRUE(store_->DeleteRun("a").ok());
  TensorInfo info;
  int count = 0;
  while (*(*scan)->Next(info)) ++count;
  EXPECT_EQ(count, 3);
}

TEST_F(ChunkStoreDeleteTest, AppendGoesOnAfterItsSegmentWasRemoved) {
  OpenWithRun("a");
  ASSERT_TRUE(store_->CreateRun({"b", 0, {}}).ok());
  ASSERT_TRUE(Append(TestChunks(1, 0, {MakeTensor("a", 0, "x", 100)})).ok());
  ASSERT_TRUE(store_->DeleteRun("a").ok());
  EXPECT_EQ(store_->Stats().segment_count, 0u);
  ASSERT_TRUE(Append(TestChunks(2, 0, {in_b_})).ok());
  Drop();
  Open();
  ExpectStored(in_b_);
}

}  // namespace
}  // namespace msitd::storage
