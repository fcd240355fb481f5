// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "protos/chunk/chunk_format.h"
#include "storage/index/db/index_db.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

class StoreRecoveryTest : public StoreTest {
 protected:
  static std::string ReadFile(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static void WriteFile(const std::string& path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  // Changes one byte of segment `number`.
  void Flip(int number, uint64_t offset) {
    std::string bytes = ReadFile(SegmentPath(number));
    ASSERT_LT(offset, bytes.size());
    bytes[offset] = static_cast<char>(~bytes[offset]);
    WriteFile(SegmentPath(number), bytes);
  }

  void AppendTail(int number, std::string_view bytes) {
    WriteFile(SegmentPath(number), ReadFile(SegmentPath(number)).append(bytes));
  }

  // Appends small tensors, one in each chunk and frame. A frame has two pages,
  // one for the head and one for the payload.
  std::vector<TestTensor> AppendTensors(int count) {
    std::vector<TestTensor> tensors;
    for (int i = 0; i < count; ++i) {
      tensors.push_back(MakeTensor("r", i, "op", 512, i + 1));
      EXPECT_TRUE(Append({tensors.back()}).ok());
    }
    return tensors;
  }

  static constexpr uint64_t HeadOf(uint64_t frame) {
    return 4096 + 8192 * frame;
  }
  static constexpr uint64_t PayloadOf(uint64_t frame) {
    return HeadOf(frame) + 4096;
  }
};

TEST_F(StoreRecoveryTest, CrashWithoutCloseLosesNothing) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(5);
  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 5u);
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 0u);
  EXPECT_EQ(store_->upkeep().Stats().corrupt_frame_count, 0u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 5u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, 5u);

  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 0u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  ASSERT_TRUE(Append({MakeTensor("r", 9, "op", 64)}).ok());
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 6u);
}

TEST_F(StoreRecoveryTest, KilledProcessLosesNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The child process runs this test again. Both processes need the name of the
  // directory.
  static const std::string directory = [] {
    const char* inherited = ::getenv("MSITD_TEST_KILLED_STORE");  // NOLINT
    const std::string path = inherited != nullptr
                                 ? inherited
                                 : (fs::temp_directory_path() /
                                    fmt::format("msitd-killed-{}", ::getpid()))
                                       .string();
    ::setenv("MSITD_TEST_KILLED_STORE", path.c_str(), 1);  // NOLINT
    return path;
  }();
  options_.directory = directory;
  EXPECT_EXIT(
      {
        OpenWithRun("r");
        AppendTensors(4);
        ::_exit(42);
      },
      ::testing::ExitedWithCode(42), "");
  Open();
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 4u);
  for (int i = 0; i < 4; ++i)
    ExpectStored(MakeTensor("r", i, "op", 512, i + 1));
  Drop();
  fs::remove_all(directory);
}

TEST_F(StoreRecoveryTest, CopyOfARunningStoreOpens) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  const std::string copy = dir_ / "copy";
  fs::copy(options_.directory, copy, fs::copy_options::recursive);
  Drop();
  options_.directory = copy;
  Open();
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreRecoveryTest, IndexFlushedMidwayIsCompletedFromTheLog) {
  options_.index_write_buffer_bytes = 64 << 10;
  options_.segment_bytes_max = 256 << 10;
  OpenWithRun("r");
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 60; ++i) {
    std::vector<TestTensor> records;
    for (int j = 0; j < 20; ++j) {
      records.push_back(
          MakeTensor("r", i, fmt::format("op{}", j), 64, 100 * i + j + 1));
      tensors.push_back(records.back());
    }
    ASSERT_TRUE(Append(records).ok());
  }
  Drop();
  Open();
  EXPECT_LT(store_->upkeep().Stats().recovered_frame_count, 60u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.tensor_count, tensors.size());
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreRecoveryTest, HalfWrittenFrameIsIgnoredAndCutOff) {
  OpenWithRun("r");
  std::vector<TestTensor> tensors = AppendTensors(2);
  Drop();
  const std::string whole = ReadFile(SegmentPath(1));
  AppendTail(1, std::string_view(whole).substr(HeadOf(1), 4096));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  EXPECT_EQ(fs::file_size(SegmentPath(1)), whole.size());
  tensors.push_back(MakeTensor("r", 7, "op", 64));
  ASSERT_TRUE(Append({tensors.back()}).ok());
  Drop();
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 0u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreRecoveryTest, TornPayloadIsNeverShownAndCanBeSentAgain) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  Drop();
  Flip(1, PayloadOf(2) + 100);
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  ExpectStored(tensors[0]);
  ExpectStored(tensors[1]);
  ExpectAbsent(tensors[2].key);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 2u);
  EXPECT_EQ(fs::file_size(SegmentPath(1)), HeadOf(2));
  ASSERT_TRUE(Append(TestChunks(kStream, 2, {tensors[2]})).ok());
  ExpectStored(tensors[2]);
}

TEST_F(StoreRecoveryTest, TornChunkEndsItsStreamAndNoOther) {
  OpenWithRun("r");
  const TestTensor a = MakeTensor("r", 0, "a", 512, 1);
  const TestTensor b = MakeTensor("r", 0, "b", 512, 2);
  const TestTensor c = MakeTensor("r", 0, "c", 512, 3);
  TestChunks chunks(1, 0, {a});
  chunks.Add(2, 0, {b});
  chunks.Add(1, 1, {c});
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  Drop();
  Flip(1, PayloadOf(0));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 2u);
  EXPECT_THAT(ScanOps("r"), ElementsAre("b"));
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 1), 0u);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, 2), 1u);
}

TEST_F(StoreRecoveryTest, TornChunkEndsNoStreamOfItsIdInAnotherRank) {
  OpenWithRun("r");
  const TestTensor a = MakeTensor("r", 0, "a", 512, 1);
  TestTensor b = MakeTensor("r", 0, "b", 512, 2);
  b.key.rank = 1;
  TestChunks chunks(1, 0, {a});
  chunks.Add(1, 0, {b});
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());
  Drop();
  Flip(1, PayloadOf(0));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  ExpectAbsent(a.key);
  ExpectStored(b);
}

TEST_F(StoreRecoveryTest, TamperedHeadHidesOnlyItsOwnFrame) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(5);
  Drop();
  // In one head, only the checksum is wrong. In the other one, the magic number
  // is wrong.
  Flip(1, HeadOf(1) + sizeof(chunk::ChunkHeader) + 100);
  Flip(1, HeadOf(3));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().corrupt_frame_count, 2u);
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 0u);
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 3u);
  for (const int i : {0, 2, 4}) ExpectStored(tensors[i]);
  for (const int i : {1, 3}) ExpectAbsent(tensors[i].key);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 5u);
}

TEST_F(StoreRecoveryTest, OlderProgramsRefuseAStoreOnceThisOneHadItOpen) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(1);
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const auto version = [&](char becomes) {
    const auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    EXPECT_TRUE(db.ok()) << db.status();
    std::string id = (*db)->Get(Table::kMeta, "store")->value();
    const char was = id[0];
    if (becomes == 0) return was;
    id[0] = becomes;
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kMeta, "store", id);
    EXPECT_TRUE((*db)->WriteDurable(batch).ok());
    return was;
  };
  const char newest = version(2);
  Open();
  ExpectStored(tensors[0]);
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  EXPECT_EQ(version(static_cast<char>(newest + 1)), newest);
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreRecoveryTest, TamperedPayloadIsDataLossWhenRead) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  Flip(1, PayloadOf(1) + 511);
  Open();
  const auto bytes = Read(tensors[1].key);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reason(bytes.status()), "FRAME_CORRUPT");
  ExpectStored(tensors[0]);
  ExpectStored(tensors[2]);
}

TEST_F(StoreRecoveryTest, TamperedPayloadOfADurableFrameHidesNoOther) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  Drop();
  Flip(1, PayloadOf(0));
  Open();
  EXPECT_EQ(Read(tensors[0].key).status().code(), absl::StatusCode::kDataLoss);
  ExpectStored(tensors[1]);
  ExpectStored(tensors[2]);
}

TEST_F(StoreRecoveryTest, DamageInASealedSegmentIsNoTornTail) {
  options_.segment_bytes_max = 16 << 10;
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(4);
  Drop();
  // The last frame of the first segment. Only the next segment shows that it
  // was durable.
  Flip(1, HeadOf(1) + 4);
  Open();
  EXPECT_EQ(store_->upkeep().Stats().corrupt_frame_count, 1u);
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 0u);
  ExpectAbsent(tensors[1].key);
  for (const int i : {0, 2, 3}) ExpectStored(tensors[i]);
}

TEST_F(StoreRecoveryTest, LostSegmentHeaderHidesNoFrame) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  Drop();
  Flip(1, 0);
  Open();
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreRecoveryTest, StaleFramesEndTheLog) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  Drop();
  const std::string bytes = ReadFile(SegmentPath(1));
  // Frames with valid heads that belong to other places.
  AppendTail(1, std::string_view(bytes).substr(HeadOf(0), 2 * 8192));
  Open();
  EXPECT_EQ(store_->upkeep().Stats().torn_frame_count, 1u);
  EXPECT_EQ(store_->upkeep().Stats().recovered_frame_count, 3u);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.duplicate_count, 0u);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
}

TEST_F(StoreRecoveryTest, SegmentOfAnotherStoreIsLeftAlone) {
  OpenWithRun("r");
  AppendTensors(2);
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  const std::string foreign = ReadFile(SegmentPath(1));
  options_.directory = dir_ / "other";
  next_chunk_ = 0;
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 50, "mine", 64)}).ok());
  Drop();
  WriteFile(SegmentPath(5), foreign);
  Open();
  EXPECT_THAT(ScanOps("r"), ElementsAre("mine"));
  ASSERT_TRUE(Append({MakeTensor("r", 51, "mine too", 64)}).ok());
  EXPECT_TRUE(fs::exists(SegmentPath(6)));
  EXPECT_EQ(ReadFile(SegmentPath(5)), foreign);
}

TEST_F(StoreRecoveryTest, UselessSegmentFilesDoNotMatter) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(2);
  Drop();
  const std::string header = ReadFile(SegmentPath(1)).substr(0, 4096);
  WriteFile(SegmentPath(2), "");
  WriteFile(SegmentPath(3), "short");
  WriteFile(SegmentPath(4), header);
  WriteFile(SegmentPath(5), std::string(20000, '\0'));
  WriteFile(SegmentPath(6), std::string(9999, 'x'));
  WriteFile(SegmentPath(7), header.substr(0, 4095));
  WriteFile(options_.directory + "/segments/notes.txt", "hello");
  Open();
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  ASSERT_TRUE(Append({MakeTensor("r", 7, "op", 64)}).ok());
  EXPECT_TRUE(fs::exists(SegmentPath(8)));
  EXPECT_FALSE(fs::exists(SegmentPath(2)));
  EXPECT_TRUE(fs::exists(SegmentPath(6)));
  ASSERT_TRUE(store_->Close().ok());
  Open();
  ExpectStored(MakeTensor("r", 7, "op", 64));
}

TEST_F(StoreRecoveryTest, FramesOfDeletedRunsStayDeleted) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"gone", 0, {}}).ok());
  const TestTensor kept = MakeTensor("r", 0, "kept", 512);
  ASSERT_TRUE(Append(TestChunks(1, 0, {kept})).ok());
  ASSERT_TRUE(Append(TestChunks(2, 0, {MakeTensor("gone", 0, "x", 64)})).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("gone").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"gone", 0, {}}).ok());
  Drop();
  Open();
  ExpectStored(kept);
  EXPECT_THAT(ScanOps("gone"), IsEmpty());
  EXPECT_EQ(store_->runs().GetRun("gone")->counters.tensor_count, 0u);
  EXPECT_EQ(*store_->log().CommittedChunkCount("gone", 0, 2), 0u);
}

TEST_F(StoreRecoveryTest, SealedRunIsRecoveredAndStaysSealed) {
  OpenWithRun("r");
  const std::vector<TestTensor> tensors = AppendTensors(3);
  ASSERT_TRUE(store_->runs().SealRun("r").ok());
  Drop();
  Open();
  EXPECT_TRUE(store_->runs().GetRun("r")->sealed);
  for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  EXPECT_EQ(*store_->log().CommittedChunkCount("r", 0, kStream), 0u);
}

TEST_F(StoreRecoveryTest, CountersAreWhatTheyWere) {
  OpenWithRun("r");
  const TestTensor tensor = MakeTensor("r", 0, "op", 300, 1);
  ASSERT_TRUE(Append({tensor}).ok());
  ASSERT_TRUE(Append({tensor}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 300, 2)}).ok());
  const RunCounters before = store_->runs().GetRun("r")->counters;
  Drop();
  Open();
  const RunCounters after = store_->runs().GetRun("r")->counters;
  EXPECT_EQ(after.tensor_count, before.tensor_count);
  EXPECT_EQ(after.payload_bytes, before.payload_bytes);
  EXPECT_EQ(after.duplicate_count, 1u);
  EXPECT_EQ(after.conflict_count, 1u);
  ExpectStored(tensor);
}

}  // namespace
}  // namespace msitd::storage
