// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_scanner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "storage/segment/segment_walk.h"
#include "storage/segment/segment_writer.h"
#include "tests/support/fault_env.h"
#include "tests/support/memory_file.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;
using msitd::testing::MakeTensor;
using msitd::testing::MemoryFile;
using msitd::testing::TempDir;
using msitd::testing::TestChunks;

constexpr uint64_t kStore = 99;
constexpr SegmentId kSegment{1};

// Writes the first of `chunks` after the last frame.
absl::Status Write(SegmentWriter& writer, TestChunks& chunks,
                   uint64_t frame_sequence) {
  const LogFrame placed[] = {{&chunks.span()[0], RunId{1}}};
  writer.Place(*placed[0].chunk, {RunId{1}, frame_sequence, 5});
  return writer.Write(placed, [](chunk::Chunk&) {});
}

// A segment of three frames of two pages each, written by a SegmentWriter that
// syncs after each frame.
class SegmentScannerTest : public ::testing::Test {
 protected:
  static constexpr int kFrameCount = 3;
  static constexpr uint64_t HeadOf(int frame) { return 4096 + 8192 * frame; }

  SegmentScannerTest() {
    SegmentHeader header;
    header.store_id = kStore;
    header.segment_id = ToNumber(kSegment);
    writer_ = *SegmentWriter::Create(env_, path_, header, 1 << 20, false);
    for (int i = 0; i < kFrameCount; ++i) {
      TestChunks chunks(1, i, {MakeTensor("r", i, "op", 100, i + 1)});
      EXPECT_TRUE(Write(*writer_, chunks, uint64_t(10 + i)).ok());
      EXPECT_TRUE(writer_->Sync().ok());
    }
    Load();
  }

  void Load() {
    const auto file = *env_.OpenForRead(path_, false);
    file_.bytes.resize(*file->Size());
    EXPECT_EQ(*file->Read(0, file_.bytes), file_.bytes.size());
  }

  SegmentScanner::ScanRange Place() const {
    SegmentScanner::ScanRange place;
    place.store_id = kStore;
    place.segment = kSegment;
    place.end_bytes = file_.bytes.size();
    return place;
  }

  // Returns the offsets of the frames. Each gap is represented by -1.
  std::vector<int64_t> Scan(const SegmentScanner::ScanRange& place) {
    std::vector<int64_t> out;
    SegmentScanner scanner(file_, place);
    while (true) {
      const auto step = scanner.Next();
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return out;
      if (step->gap.has_value()) out.push_back(-1);
      if (!step->frame.has_value()) return out;
      out.push_back(static_cast<int64_t>(step->frame->offset));
    }
  }
  std::vector<int64_t> Scan() { return Scan(Place()); }

  void Flip(uint64_t offset) { file_.bytes.at(offset) ^= std::byte{1}; }

  TempDir dir_;
  const std::string path_ = dir_ / "00000001.seg";
  FaultEnv env_{Env::Posix()};
  std::unique_ptr<SegmentWriter> writer_;
  MemoryFile file_;
};

TEST_F(SegmentScannerTest, FramesFollowEachOther) {
  EXPECT_EQ(Scan(), (std::vector<int64_t>{4096, 12288, 20480}));
  EXPECT_EQ(file_.bytes.size(), HeadOf(3));
}

TEST_F(SegmentScannerTest, WriterStampsWhereAndWhenAFrameLies) {
  SegmentScanner scanner(file_, Place());
  for (int i = 0; i < kFrameCount; ++i) {
    const auto step = scanner.Next();
    ASSERT_TRUE(step.ok() && step->frame.has_value());
    const chunk::ChunkHeader& header = step->frame->chunk.header();
    EXPECT_EQ(header.store_id, kStore);
    EXPECT_EQ(header.segment_id, 1u);
    EXPECT_EQ(header.run_id, 1u);
    EXPECT_EQ(header.frame_offset, HeadOf(i));
    EXPECT_EQ(header.durable_bytes, i == 0 ? 0 : HeadOf(i));
    EXPECT_EQ(header.frame_sequence, 10u + i);
    EXPECT_EQ(header.receive_time_ns, 5);
    EXPECT_TRUE(step->frame->is_complete);
    AlignedBuffer buffer;
    EXPECT_TRUE(VerifyPayload(file_, *step->frame, buffer).ok());
  }
}

TEST_F(SegmentScannerTest, AnyFlippedByteOfAHeadIsAGapAndNothingElse) {
  const auto before = file_.bytes;
  const uint64_t head_bytes = [this] {
    SegmentScanner scanner(file_, Place());
    return scanner.Next()->frame->chunk.header().head_bytes;
  }();
  for (uint64_t i = 0; i < head_bytes; ++i) {
    Flip(HeadOf(1) + i);
    ASSERT_EQ(Scan(), (std::vector<int64_t>{4096, -1, 20480})) << i;
    file_.bytes = before;
  }
}

TEST_F(SegmentScannerTest, FileCutAnywhereGivesTheWholeFramesBeforeTheCut) {
  const auto before = file_.bytes;
  for (uint64_t cut = 0; cut <= before.size(); cut += 512) {
    file_.bytes = before;
    file_.bytes.resize(cut);
    SegmentScanner scanner(file_, Place());
    uint64_t whole = 0;
    while (true) {
      const auto step = scanner.Next();
      ASSERT_TRUE(step.ok());
      if (!step->frame.has_value()) break;
      whole += step->frame->is_complete ? 1 : 0;
    }
    EXPECT_EQ(whole, cut < 4096 ? 0 : (cut - 4096) / 8192) << cut;
  }
}

TEST_F(SegmentScannerTest, FramesThatBelongElsewhereDoNotCount) {
  SegmentScanner::ScanRange place = Place();
  place.store_id = 98;
  EXPECT_EQ(Scan(place), std::vector<int64_t>{-1});
  place = Place();
  place.segment = SegmentId{2};
  EXPECT_EQ(Scan(place), std::vector<int64_t>{-1});
  place = Place();
  place.frame_sequence_min = 11;
  EXPECT_EQ(Scan(place), (std::vector<int64_t>{-1, 12288, 20480}));
  // The frame was moved to another offset of the same segment.
  std::memmove(file_.bytes.data() + HeadOf(1), file_.bytes.data() + HeadOf(0),
               8192);
  EXPECT_EQ(Scan(), (std::vector<int64_t>{4096, -1, 20480}));
}

TEST_F(SegmentScannerTest, RandomBytesAreGaps) {
  std::vector<std::byte>& bytes = file_.bytes;
  uint32_t seed = 1;
  for (std::byte& byte : bytes) byte = std::byte((seed = seed * 48271) >> 16);
  EXPECT_EQ(Scan(), std::vector<int64_t>{-1});
  // The pages start with the magic number of a head.
  for (uint64_t at = 4096; at < bytes.size(); at += 4096) {
    std::memcpy(bytes.data() + at, &chunk::kMagic, sizeof(chunk::kMagic));
  }
  EXPECT_EQ(Scan(), std::vector<int64_t>{-1});
  bytes.clear();
  EXPECT_TRUE(Scan().empty());
}

TEST_F(SegmentScannerTest, ReadErrorIsNoGap) {
  const auto file = *env_.OpenForRead(path_, false);
  env_.FailAt(1, absl::UnavailableError("bad sector"), true);
  SegmentScanner scanner(*file, Place());
  EXPECT_EQ(scanner.Next().status().code(), absl::StatusCode::kUnavailable);
}

using Kind = SegmentWalk::Step::Kind;

class SegmentWalkTest : public SegmentScannerTest {
 protected:
  std::vector<Kind> Walk(std::optional<uint64_t> known_end,
                         uint64_t durable_min = 0) {
    std::vector<Kind> out;
    auto walk = SegmentWalk::Begin(file_, Place(), known_end, durable_min);
    EXPECT_TRUE(walk.ok());
    while (true) {
      const auto step = walk->Next();
      EXPECT_TRUE(step.ok());
      if (!step.ok() || step->kind == Kind::kEnd) return out;
      if (step->kind == Kind::kFrame) {
        durable_.push_back(step->is_durable);
      }
      out.push_back(step->kind);
    }
  }

  std::vector<bool> durable_;
};

TEST_F(SegmentWalkTest, LastFrameIsNotKnownToBeWhole) {
  EXPECT_EQ(Walk({}), (std::vector<Kind>(3, Kind::kFrame)));
  EXPECT_EQ(durable_, (std::vector<bool>{true, true, false}));
  durable_.clear();
  Walk(HeadOf(3));
  EXPECT_EQ(durable_, (std::vector<bool>{true, true, true}));
}

TEST_F(SegmentWalkTest, GapBeforeTheDurableMarkIsDamage) {
  Flip(HeadOf(1));
  EXPECT_EQ(Walk({}),
            (std::vector<Kind>{Kind::kFrame, Kind::kDamage, Kind::kFrame}));
}

TEST_F(SegmentWalkTest, GapBehindTheDurableMarkIsTheTail) {
  Flip(HeadOf(2));
  EXPECT_EQ(Walk({}),
            (std::vector<Kind>{Kind::kFrame, Kind::kFrame, Kind::kTail}));
  EXPECT_EQ(Walk(HeadOf(3)),
            (std::vector<Kind>{Kind::kFrame, Kind::kFrame, Kind::kDamage}));
  EXPECT_EQ(Walk({}, HeadOf(3)),
            (std::vector<Kind>{Kind::kFrame, Kind::kFrame, Kind::kDamage}));
}

TEST_F(SegmentWalkTest, KnownEndHidesWhatWasGivenUp) {
  EXPECT_EQ(Walk(HeadOf(1)), std::vector<Kind>{Kind::kFrame});
  EXPECT_EQ(Walk(HeadOf(0)), std::vector<Kind>{});
}

TEST_F(SegmentWalkTest, FileShorterThanItWasIsDamage) {
  file_.bytes.resize(HeadOf(2));
  EXPECT_EQ(Walk({}), (std::vector<Kind>{Kind::kFrame, Kind::kFrame}));
  EXPECT_EQ(Walk(HeadOf(3)),
            (std::vector<Kind>{Kind::kFrame, Kind::kFrame, Kind::kDamage}));
}

TEST_F(SegmentWalkTest, FrameCutShortIsTheTail) {
  file_.bytes.resize(HeadOf(3) - 512);
  EXPECT_EQ(Walk({}),
            (std::vector<Kind>{Kind::kFrame, Kind::kFrame, Kind::kTail}));
}

class SegmentWriterTest : public SegmentScannerTest {
 protected:
  absl::Status Append() {
    TestChunks chunks(1, 7, {MakeTensor("r", 7, "op", 100)});
    return Write(*writer_, chunks, 20);
  }
};

TEST_F(SegmentWriterTest, FirstErrorStaysAndNothingIsSyncedAgain) {
  ASSERT_TRUE(Append().ok());
  env_.FailAt(1, absl::UnavailableError("broken"), /*forever=*/false);
  const absl::Status first = writer_->Sync();
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable);
  const uint64_t operations = env_.operation_count();
  EXPECT_EQ(writer_->Sync(), first);
  EXPECT_EQ(Append(), first);
  EXPECT_EQ(writer_->status(), first);
  EXPECT_EQ(env_.operation_count(), operations);
  EXPECT_EQ(writer_->durable_bytes(), HeadOf(3));
}

TEST_F(SegmentWriterTest, SealCutsTheFileAndEndsTheWriter) {
  ASSERT_TRUE(Append().ok());
  EXPECT_EQ(writer_->written_bytes(), HeadOf(4));
  EXPECT_EQ(writer_->durable_bytes(), HeadOf(3));
  writer_->Seal(HeadOf(3));
  Load();
  EXPECT_EQ(file_.bytes.size(), HeadOf(3));
  EXPECT_FALSE(Append().ok());
  EXPECT_FALSE(writer_->Sync().ok());
}

TEST_F(SegmentWriterTest, DiskThatCannotPreallocateIsNoError) {
  SegmentHeader header;
  const std::string path = dir_ / "other";
  auto writer = *SegmentWriter::Create(env_, path, header, 1 << 20, false);
  env_.FailAt(1, absl::ResourceExhaustedError("full"), /*forever=*/false);
  TestChunks chunks(1, 0, {MakeTensor("r", 0, "op", 100)});
  EXPECT_TRUE(Write(*writer, chunks, 1).ok());
  EXPECT_EQ(env_.operation_count(), 2u);
}

}  // namespace
}  // namespace msitd::storage
