// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "tests/support/fault_env.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;
using msitd::testing::TempDir;

constexpr uint64_t kFileBytes = 3 * 4096;
constexpr int kFileCount =
    static_cast<int>(SegmentReader::kOpenSegmentsMax) + 9;

// Creates more files than are kept open. Each file is filled with its number.
class SegmentReaderTest : public ::testing::Test {
 protected:
  SegmentReaderTest() {
    AlignedBuffer content(kFileBytes);
    const std::array<std::span<const std::byte>, 1> pieces = {content.span()};
    for (int i = 1; i <= kFileCount; ++i) {
      std::memset(content.data(), i, content.size());
      const auto file = *env_.Create(
          dir_ / SegmentFileName(SegmentId(static_cast<uint64_t>(i))), false);
      EXPECT_TRUE(file->Write(0, pieces).ok());
    }
  }

  static PartInfo Part(int number, uint64_t offset, uint64_t bytes) {
    const std::vector<std::byte> content(bytes, std::byte(number));
    return {.place = {static_cast<uint64_t>(number), offset},
            .bytes = bytes,
            .hash = chunk::HashBytes(content)};
  }

  TempDir dir_ = TempDir::InMemory();
  FaultEnv env_{Env::Posix()};
  SegmentReader reader_{env_, dir_.path(), /*direct=*/true};
};

TEST_F(SegmentReaderTest, PartsAnywhereInTheFileAreRead) {
  AlignedBuffer buffer;
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint64_t>{0, 1},
                                      {64, 100},
                                      {4032, 128},
                                      {4096, 8192},
                                      {0, kFileBytes},
                                      {kFileBytes - 1, 1},
                                      {77, 0}}) {
    const auto read = reader_.Read(Part(1, offset, bytes), buffer);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->size(), bytes);
  }
  EXPECT_GE(buffer.size(), kFileBytes);
}

TEST_F(SegmentReaderTest, BytesThatAreNotThoseOfTheHashAreDataLoss) {
  AlignedBuffer buffer;
  PartInfo part = Part(1, 64, 100);
  part.hash = Part(2, 64, 100).hash;
  for (const PartInfo& bad :
       {part, Part(1, kFileBytes - 10, 20), Part(1, 1 << 20, 20),
        PartInfo{.place = {1, 0}, .bytes = kPartBytes + 1, .hash = {}}}) {
    const auto read = reader_.Read(bad, buffer);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(Reason(read.status()), "FRAME_CORRUPT");
  }
}

TEST_F(SegmentReaderTest, AMissingSegmentIsDataLossAndADiskErrorIsNot) {
  AlignedBuffer buffer;
  const auto read = reader_.Read(Part(200, 0, 10), buffer);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reason(read.status()), "SEGMENT_MISSING");
  env_.FailAt(1, absl::UnavailableError("broken"), true);
  EXPECT_EQ(reader_.Read(Part(1, 0, 10), buffer).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(SegmentReaderTest, FilesReadLastStayOpen) {
  AlignedBuffer buffer;
  for (int i = 1; i <= kFileCount; ++i) {
    ASSERT_TRUE(reader_.Read(Part(i, 0, 10), buffer).ok());
  }
  const auto operations_of = [&](int number) {
    env_.FailAt(0, {}, false);
    EXPECT_TRUE(reader_.Read(Part(number, 0, 10), buffer).ok());
    return env_.operation_count();
  };
  EXPECT_EQ(operations_of(kFileCount), 1u);
  EXPECT_EQ(operations_of(1), 2u);
  EXPECT_EQ(operations_of(1), 1u);
  reader_.Forget(SegmentId{1});
  EXPECT_EQ(operations_of(1), 2u);
}

// Creates a file of `pages` pages. Each byte depends on its offset and on
// `seed`.
class ReadAroundTest : public SegmentReaderTest {
 protected:
  static constexpr uint64_t kFile = 500;
  static constexpr uint64_t kPieceBytes = 1000;

  void WritePages(uint64_t first, uint64_t count, uint32_t seed) {
    AlignedBuffer pages(count * 4096);
    for (uint64_t i = 0; i < pages.size(); ++i) {
      pages.data()[i] = ByteAt(first * 4096 + i, seed);
    }
    const std::array<std::span<const std::byte>, 1> pieces = {pages.span()};
    const std::string path = dir_ / SegmentFileName(SegmentId{kFile});
    auto file = env_.OpenForWrite(path, false);
    if (!file.ok()) file = env_.Create(path, false);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(first * 4096, pieces).ok());
  }

  static std::byte ByteAt(uint64_t offset, uint32_t seed) {
    return static_cast<std::byte>((offset * 2654435761u + seed) >> 13);
  }

  // Expects that a piece has the bytes that were written with `seed`.
  void ExpectRead(uint64_t offset, uint32_t seed) {
    std::vector<std::byte> expected(kPieceBytes);
    for (uint64_t i = 0; i < kPieceBytes; ++i) {
      expected[i] = ByteAt(offset + i, seed);
    }
    const auto read = reader_.Read({.place = {kFile, offset},
                                    .bytes = kPieceBytes,
                                    .hash = chunk::HashBytes(expected)},
                                   buffer_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(std::ranges::equal(*read, expected)) << offset;
  }

  uint64_t OperationsOf(const std::function<void()>& work) {
    env_.FailAt(0, {}, false);
    work();
    return env_.operation_count();
  }

  AlignedBuffer buffer_;
};

TEST_F(ReadAroundTest, SmallPartsOneAfterTheOtherTakeFewReads) {
  WritePages(0, 1024, 1);
  ExpectRead(64, 1);
  // Two readers take turns, each in one half of the file.
  EXPECT_LE(OperationsOf([&] {
              for (uint64_t i = 1; i < 1500; ++i) {
                ExpectRead(64 + i * 1024, 1);
                ExpectRead((uint64_t{2} << 20) + i * 1024, 1);
              }
            }),
            2u + 4u);
}

TEST_F(ReadAroundTest, SmallPartsHereAndThereTakeOneReadOfTheirSize) {
  WritePages(0, 1024, 1);
  ExpectRead(0, 1);
  EXPECT_EQ(OperationsOf([&] {
              for (uint64_t i = 40; i > 0; --i) ExpectRead(i * 100'000, 1);
            }),
            40u);
}

TEST_F(ReadAroundTest, WhatIsWrittenBehindIsReadAgain) {
  WritePages(0, 64, 1);
  ExpectRead(0, 1);
  ExpectRead(1024, 1);
  WritePages(32, 512, 2);
  for (uint64_t i = 128; i < 1000; ++i) ExpectRead(i * 1024, 2);
  ExpectRead(2048, 1);
}

TEST_F(ReadAroundTest, AForgottenSegmentIsNotRemembered) {
  WritePages(0, 64, 1);
  ExpectRead(0, 1);
  ExpectRead(1024, 1);
  reader_.Forget(SegmentId{kFile});
  ASSERT_TRUE(env_.Remove(dir_ / SegmentFileName(SegmentId{kFile})).ok());
  const auto read = reader_.Read(
      {.place = {kFile, 2048}, .bytes = kPieceBytes, .hash = {}}, buffer_);
  EXPECT_EQ(Reason(read.status()), "SEGMENT_MISSING");
}

TEST_F(SegmentReaderTest, ThreadsMayReadAndForgetAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      AlignedBuffer buffer;
      for (int i = 0; i < 300; ++i) {
        const int number = 1 + (i * 7 + t * 13) % kFileCount;
        const auto read = reader_.Read(Part(number, 64 * i % 4096, 50), buffer);
        EXPECT_TRUE(read.ok()) << read.status();
        if (i % 10 == t) {
          reader_.Forget(SegmentId(static_cast<uint64_t>(number)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace msitd::storage
