// SPDX-License-Identifier: Apache-2.0
#include "storage/read/read_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "protos/base/limits.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {
namespace {

constexpr uint64_t kPage = kChunkAlignment;

PartInfo At(uint64_t segment, uint64_t offset, uint64_t bytes) {
  return {.place = {segment, offset}, .bytes = bytes, .hash = {}};
}

// Expects that every readable part is completely in the read that its place
// names.
void ExpectSound(const ReadPlan& plan, const std::vector<PartInfo>& parts) {
  uint64_t buffer_end = 0;
  for (const ReadPlan::Read& read : plan.reads) {
    EXPECT_EQ(read.offset % kPage, 0u);
    EXPECT_EQ(read.bytes % kPage, 0u);
    EXPECT_EQ(read.buffer_offset % kPage, 0u);
    EXPECT_GT(read.bytes, 0u);
    buffer_end += read.bytes;
  }
  EXPECT_EQ(plan.buffer_bytes, buffer_end);
  size_t needed = 0;
  for (size_t i = 0; i < plan.places.size(); ++i) {
    const ReadPlan::BufferPlace& place = plan.places[i];
    if (place.read == ReadPlan::BufferPlace::kNoRead) continue;
    ASSERT_LT(place.read, plan.reads.size());
    // Reads are in the order in which they are needed.
    EXPECT_LE(place.read, needed);
    needed = std::max(needed, place.read + 1);
    const ReadPlan::Read& read = plan.reads[place.read];
    EXPECT_EQ(read.file, parts[i].place.file);
    EXPECT_GE(parts[i].place.offset, read.offset);
    EXPECT_LE(parts[i].place.offset + parts[i].bytes, read.offset + read.bytes);
    EXPECT_EQ(place.buffer_offset - read.buffer_offset,
              parts[i].place.offset - read.offset);
  }
  EXPECT_EQ(needed, plan.reads.size());
}

TEST(ReadPlanTest, NeighboursAreJoinedInWhateverOrderTheyAreAskedFor) {
  std::vector<PartInfo> parts;
  for (uint64_t i = 0; i < 1000; ++i) {
    parts.push_back(At(1, 8192 + (i * 7 % 1000) * 1024, 1024));
    parts.push_back(At(2, 64 + (999 - i) * 1024, 1000));
  }
  const ReadPlan plan = PlanReads(parts);
  ASSERT_EQ(plan.places.size(), parts.size());
  ExpectSound(plan, parts);
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.reads[0].file, 1u);
  EXPECT_EQ(plan.reads[0].offset, 8192u);
  EXPECT_EQ(plan.reads[0].bytes, 1000u * 1024);
}

TEST(ReadPlanTest, LongGapsAndLongReadsAreCut) {
  const uint64_t near = 2 * kPage + kJoinedGapBytesMax;
  const std::vector<PartInfo> gaps = {At(1, kPage, kPage), At(1, near, kPage),
                                      At(1, 2 * near + kPage, 1)};
  const ReadPlan two = PlanReads(gaps);
  ExpectSound(two, gaps);
  EXPECT_EQ(two.reads.size(), 2u);

  std::vector<PartInfo> dense;
  for (uint64_t i = 0; i < 32; ++i) {
    dense.push_back(At(1, i << 18, uint64_t{1} << 18));
  }
  const ReadPlan plan = PlanReads(dense);
  ExpectSound(plan, dense);
  EXPECT_EQ(plan.places.size(), 32u);
  EXPECT_EQ(plan.reads.size(), (32u << 18) / kJoinedReadBytesMax);
}

TEST(ReadPlanTest, ABatchIsBoundedInBytesAndInParts) {
  // Each part needs a separate read of two pages.
  std::vector<PartInfo> sparse;
  for (uint64_t i = 0; i < kBatchPartsMax; ++i) {
    sparse.push_back(At(1, kPage - 8 + i * 2 * kJoinedGapBytesMax, 16));
  }
  const ReadPlan some = PlanReads(sparse);
  ExpectSound(some, sparse);
  EXPECT_LE(some.buffer_bytes, kBatchBytesMax);
  EXPECT_GT(some.places.size(), 0u);
  EXPECT_LT(some.places.size(), sparse.size());

  const std::vector<PartInfo> many(2 * kBatchPartsMax, At(1, 0, 64));
  EXPECT_EQ(PlanReads(many).places.size(), kBatchPartsMax);
  EXPECT_EQ(PlanReads({}).places.size(), 0u);
  // A part of the maximum length is never left out.
  const std::vector<PartInfo> large(9, At(1, 64, kPartBytes));
  const ReadPlan first = PlanReads(std::span(large).first(1));
  EXPECT_EQ(first.places.size(), 1u);
  EXPECT_EQ(first.buffer_bytes, kPartBytes + kPage);
}

TEST(ReadPlanTest, WhatIsNoPartIsNotRead) {
  std::vector<PartInfo> parts = {At(1, 0, 0), At(1, 0, kPartBytes + 1),
                                 At(1, ~uint64_t{0}, 10), At(1, 100, 10)};
  parts.push_back(At(1, 200, 10));
  parts.back().has_bytes = false;
  const ReadPlan plan = PlanReads(parts);
  ExpectSound(plan, parts);
  ASSERT_EQ(plan.places.size(), 5u);
  ASSERT_EQ(plan.reads.size(), 1u);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(plan.places[i].read == ReadPlan::BufferPlace::kNoRead, i != 3)
        << i;
  }
}

TEST(ReadPlanTest, PlansOfAnyPartsAreSound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PartInfo> parts;
    const size_t count = random() % 300;
    for (size_t i = 0; i < count; ++i) {
      parts.push_back(At(1 + random() % 3, random() % (16 << 20),
                         random() % (uint64_t{1} << (random() % 23))));
    }
    const ReadPlan plan = PlanReads(parts);
    SCOPED_TRACE(round);
    ExpectSound(plan, parts);
    EXPECT_LE(plan.places.size(), parts.size());
    EXPECT_EQ(plan.places.empty(), parts.empty());
    if (plan.places.size() > 1) {
      EXPECT_LE(plan.buffer_bytes, kBatchBytesMax);
    }
  }
}

}  // namespace
}  // namespace msitd::storage
