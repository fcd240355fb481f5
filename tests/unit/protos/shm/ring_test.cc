// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "protos/chunk/chunk_draft.h"
#include "protos/shm/ring_reader.h"
#include "protos/shm/ring_writer.h"
#include "protos/status/status.h"

namespace msitd::shm {
namespace {

constexpr uint64_t kStream = 77;

class RingTest : public testing::Test {
 protected:
  void SetUp() override { Begin(0); }

  void Begin(uint64_t committed) {
    auto arena = RingArena::Create(arena_bytes_);
    ASSERT_TRUE(arena.ok()) << arena.status();
    auto reader = RingReader::Create(*arena, kStream, committed);
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
    arena_ = MappedRegion((*arena)->fd(), arena_bytes_, PROT_READ | PROT_WRITE);
    ASSERT_TRUE(arena_.valid());
    MappedRegion table = MapTable();
    ASSERT_TRUE(RingWriter::IsTable(table, arena_bytes_));
    writer_ =
        std::make_unique<RingWriter>(std::move(table), ArenaBytes(),
                                     UniqueFd(::dup(reader_->data_ready_fd())));
  }

  MappedRegion MapTable() const {
    return MappedRegion(reader_->table_fd(), kTableBytes,
                        PROT_READ | PROT_WRITE);
  }

  std::span<std::byte> ArenaBytes() const {
    return {arena_.data(), arena_.size()};
  }

  // Returns one page of the arena, filled with `value`.
  std::span<const std::byte> Page(uint64_t page, int value) {
    const auto chunk =
        ArenaBytes().subspan(page * kChunkAlignment, kChunkAlignment);
    std::memset(chunk.data(), value, chunk.size());
    return chunk;
  }

  // Publishes an arbitrary entry, as a malicious producer could.
  void PublishEntry(uint64_t published, uint64_t index, uint64_t sequence,
                    uint64_t offset, uint64_t bytes) {
    const MappedRegion table = MapTable();
    auto* entry =
        reinterpret_cast<RingEntry*>(table.data() + sizeof(RingHeader)) + index;
    entry->chunk_sequence = sequence;
    entry->chunk_offset = offset;
    entry->chunk_bytes = bytes;
    reinterpret_cast<RingHeader*>(table.data())->published_count = published;
  }

  void ExpectInvalid() {
    const auto chunk = reader_->Next();
    EXPECT_EQ(chunk.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Reason(chunk.status()), "RING_INVALID");
  }

  uint64_t arena_bytes_ = kArenaBytesMin;
  std::unique_ptr<RingReader> reader_;
  MappedRegion arena_;
  std::unique_ptr<RingWriter> writer_;
};

TEST_F(RingTest, ChunksArriveInOrderWhereTheyLie) {
  ASSERT_TRUE(writer_->Publish(Page(5, 1)));
  ASSERT_TRUE(writer_->Publish(Page(2, 2)));
  for (int i = 0; i < 2; ++i) {
    const auto chunk = reader_->Next();
    ASSERT_TRUE(chunk.ok());
    ASSERT_TRUE(chunk->has_value());
    ASSERT_EQ((*chunk)->size(), kChunkAlignment);
    EXPECT_EQ((**chunk)[7], std::byte(i + 1));
    EXPECT_EQ((*chunk)->data() - reader_->arena()->bytes().data(),
              i == 0 ? 5 * 4096 : 2 * 4096);
  }
  EXPECT_FALSE((*reader_->Next()).has_value());
}

TEST_F(RingTest, SessionGoesOnBehindWhatIsCommitted) {
  Begin(1'000'000'007);
  EXPECT_EQ(writer_->committed_count(), 1'000'000'007u);
  EXPECT_FALSE((*reader_->Next()).has_value());
  ASSERT_TRUE(writer_->Publish(Page(0, 1)));
  EXPECT_TRUE((*reader_->Next()).has_value());
  reader_->Commit(1'000'000'008, 0);
  EXPECT_EQ(writer_->committed_count(), 1'000'000'008u);
}

TEST_F(RingTest, TimesAreThoseOfTheProducer) {
  EXPECT_EQ(reader_->Times().recording_ns, 0u);
  EXPECT_EQ(reader_->Times().open_ns, 0u);
  writer_->SetTimes({5, 6'000'000'000});
  EXPECT_EQ(reader_->Times().recording_ns, 5u);
  EXPECT_EQ(reader_->Times().open_ns, 6'000'000'000u);
}

TEST_F(RingTest, EveryPublicationMakesTheEventReadable) {
  pollfd event{reader_->data_ready_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  ASSERT_TRUE(writer_->Publish(Page(0, 1)));
  EXPECT_EQ(::poll(&event, 1, 0), 1);
}

TEST_F(RingTest, EntriesAreABoundUntilChunksAreCommitted) {
  for (uint32_t i = 0; i < kRingEntryCount; ++i) {
    ASSERT_TRUE(writer_->Publish(Page(0, 1)));
  }
  EXPECT_FALSE(writer_->Publish(Page(0, 1)));
  for (uint32_t i = 0; i < kRingEntryCount; ++i) {
    ASSERT_TRUE((*reader_->Next()).has_value());
  }
  reader_->Commit(1, 0);
  EXPECT_TRUE(writer_->Publish(Page(0, 1)));
  EXPECT_TRUE((*reader_->Next()).has_value());
}

TEST_F(RingTest, UsedIsWhatIsPublishedAndNotCommitted) {
  EXPECT_EQ(reader_->UsedBytes(), 0u);
  ASSERT_TRUE(writer_->Publish(Page(0, 1)));
  ASSERT_TRUE(writer_->Publish(Page(1, 1)));
  EXPECT_EQ(reader_->UsedBytes(), 2 * kChunkAlignment);
  ASSERT_TRUE((*reader_->Next()).has_value());
  EXPECT_EQ(reader_->UsedBytes(), 2 * kChunkAlignment);
  reader_->Commit(1, 0);
  EXPECT_EQ(reader_->UsedBytes(), kChunkAlignment);
  reader_->Commit(2, 0);
  EXPECT_EQ(reader_->UsedBytes(), 0u);
}

TEST_F(RingTest, UsedIsNeverMoreThanTheArenaWhateverTheTableSays) {
  for (const uint64_t bytes : {uint64_t{4096}, kArenaBytesMin, UINT64_MAX}) {
    for (const uint64_t published :
         {uint64_t{1}, uint64_t{1} << 40, UINT64_MAX}) {
      Begin(0);
      for (uint64_t i = 0; i < kRingEntryCount; ++i) {
        PublishEntry(published, i, 0, 0, bytes);
      }
      EXPECT_GT(reader_->UsedBytes(), 0u);
      EXPECT_LE(reader_->UsedBytes(), kArenaBytesMin);
    }
  }
  Begin(5);
  PublishEntry(4, 0, 0, 0, 4096);
  EXPECT_EQ(reader_->UsedBytes(), 0u);
}

TEST_F(RingTest, WriterPublishesNothingOutsideTheArena) {
  const std::vector<std::byte> elsewhere(4096);
  EXPECT_FALSE(writer_->Publish(elsewhere));
  EXPECT_FALSE((*reader_->Next()).has_value());
}

TEST_F(RingTest, EntryThatLeadsOutOfTheArenaIsRefused) {
  struct Lie {
    uint64_t offset;
    uint64_t bytes;
  };
  for (const Lie lie : {Lie{kArenaBytesMin, 1}, Lie{0, kArenaBytesMin + 1},
                        Lie{4096, UINT64_MAX}, Lie{UINT64_MAX - 4095, 8192},
                        Lie{1, 4096}, Lie{512, 0}}) {
    Begin(0);
    PublishEntry(1, 0, 0, lie.offset, lie.bytes);
    ExpectInvalid();
  }
}

TEST_F(RingTest, CountThatCannotBeIsRefused) {
  PublishEntry(kRingEntryCount + 1, 0, 0, 0, 4096);
  ExpectInvalid();
  Begin(5);
  PublishEntry(4, 0, 0, 0, 4096);
  ExpectInvalid();
  Begin(0);
  PublishEntry(UINT64_MAX, 0, 0, 0, 4096);
  ExpectInvalid();
}

TEST_F(RingTest, EntryOfAnotherChunkIsRefused) {
  PublishEntry(1, 0, 1024, 0, 4096);
  ExpectInvalid();
}

TEST_F(RingTest, WhatTheHeaderSaysLaterDoesNotCount) {
  const MappedRegion table = MapTable();
  auto* header = reinterpret_cast<RingHeader*>(table.data());
  header->arena_bytes = UINT64_MAX;
  header->entry_count = UINT32_MAX;
  PublishEntry(1, 0, 0, kArenaBytesMin, 4096);
  ExpectInvalid();
}

TEST_F(RingTest, TableOfAnotherSizeOrVersionIsNone) {
  const MappedRegion table = MapTable();
  EXPECT_FALSE(RingWriter::IsTable(table, kArenaBytesMin + 4096));
  reinterpret_cast<RingHeader*>(table.data())->version = 2;
  EXPECT_FALSE(RingWriter::IsTable(table, kArenaBytesMin));
  EXPECT_FALSE(RingWriter::IsTable(MappedRegion(), kArenaBytesMin));
}

TEST_F(RingTest, ProducerCannotResizeWhatIsShared) {
  for (const int fd : {reader_->arena()->fd(), reader_->table_fd()}) {
    EXPECT_NE(::ftruncate(fd, 0), 0);
    EXPECT_NE(::ftruncate(fd, 1 << 30), 0);
    EXPECT_NE(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
}

TEST_F(RingTest, ArenaIsTakenBackWithWhatIsInIt) {
  Page(3, 9);
  const auto again = RingArena::Adopt(UniqueFd(::dup(reader_->arena()->fd())));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->bytes()[3 * 4096], std::byte{9});
}

void ExpectNoArena(UniqueFd fd) {
  const auto arena = RingArena::Adopt(std::move(fd));
  EXPECT_EQ(Reason(arena.status()), "RING_INVALID") << arena.status();
}

TEST(RingArenaTest, OnlySealedMemoryOfTheRightSizeIsTakenBack) {
  UniqueFd unsealed(::memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), kArenaBytesMin), 0);
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
  ExpectNoArena(std::move(unsealed));
  ExpectNoArena(MakeSealedMemory("test", kArenaBytesMin - 4096));
  ExpectNoArena(MakeSealedMemory("test", kArenaBytesMin + 1));
  ExpectNoArena(MakeSealedMemory("test", kArenaBytesMax + 4096));
  ExpectNoArena(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)));
  ExpectNoArena(UniqueFd(::eventfd(0, EFD_CLOEXEC)));
  ExpectNoArena(UniqueFd());
}

TEST(RingArenaTest, SizeIsInItsLimits) {
  EXPECT_EQ(Reason(RingArena::Create(kArenaBytesMin - 4096).status()),
            "RING_INVALID");
  EXPECT_EQ(Reason(RingArena::Create(kArenaBytesMax + 4096).status()),
            "RING_INVALID");
  EXPECT_EQ(Reason(RingArena::Create(kArenaBytesMin + 1).status()),
            "RING_INVALID");
}

// Returns a number that is correct, almost correct or arbitrary.
uint64_t Garbage(std::minstd_rand& random, uint64_t right) {
  switch (random() % 4) {
    case 0:
      return right + random() % 3 - 1;
    case 1:
      return random() % (2 * kArenaBytesMin);
    case 2:
      return (uint64_t{random()} << 33 | random()) * 4096;
    default:
      return right;
  }
}

TEST_F(RingTest, GarbageInTheTableLeadsNowhereElse) {
  const std::span<const std::byte> arena = reader_->arena()->bytes();
  const MappedRegion table = MapTable();
  auto* header = reinterpret_cast<RingHeader*>(table.data());
  auto* entries =
      reinterpret_cast<RingEntry*>(table.data() + sizeof(RingHeader));
  std::minstd_rand random(20);
  uint64_t next = 0;
  uint64_t refused_count = 0;
  for (int i = 0; i < 200'000; ++i) {
    RingEntry& entry = entries[next % kRingEntryCount];
    header->published_count = Garbage(random, next + 1);
    header->committed_count = random();
    header->arena_bytes = random();
    entry.chunk_sequence = Garbage(random, next);
    entry.chunk_offset = Garbage(random, random() % 2000 * 4096);
    entry.chunk_bytes = Garbage(random, 4096);
    const auto chunk = reader_->Next();
    if (!chunk.ok()) {
      ++refused_count;
      ASSERT_EQ(Reason(chunk.status()), "RING_INVALID");
    } else if (chunk->has_value()) {
      ++next;
      ASSERT_GE((*chunk)->data(), arena.data());
      ASSERT_LE((*chunk)->size(), arena.size());
      ASSERT_LE((*chunk)->data() + (*chunk)->size(),
                arena.data() + arena.size());
    }
  }
  EXPECT_GT(next, 1000u);
  EXPECT_GT(refused_count, 1000u);
}

TEST_F(RingTest, CarriesManyChunksBetweenTwoThreads) {
  constexpr uint64_t kCount = 20'000;
  constexpr uint64_t kPages = 64;
  UniqueFd committed(::eventfd(0, EFD_CLOEXEC));
  const auto wait = [](int fd) {
    pollfd event{fd, POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 60'000), 1);
    uint64_t ignored;
    ASSERT_EQ(::read(fd, &ignored, sizeof(ignored)), 8);
  };
  std::thread daemon([&] {
    for (uint64_t seen = 0; seen < kCount;) {
      const auto chunk = reader_->Next();
      ASSERT_TRUE(chunk.ok());
      if (!chunk->has_value()) {
        wait(reader_->data_ready_fd());
        continue;
      }
      uint64_t value;
      std::memcpy(&value, (*chunk)->data(), sizeof(value));
      ASSERT_EQ(value, seen);
      reader_->Commit(++seen, 0);
      const uint64_t one = 1;
      ASSERT_EQ(::write(committed.get(), &one, sizeof(one)), 8);
    }
  });
  for (uint64_t sent = 0; sent < kCount; ++sent) {
    while (writer_->committed_count() + kPages <= sent) wait(committed.get());
    const auto chunk = ArenaBytes().subspan((sent % kPages) * kChunkAlignment,
                                            kChunkAlignment);
    std::memcpy(chunk.data(), &sent, sizeof(sent));
    ASSERT_TRUE(writer_->Publish(chunk));
  }
  daemon.join();
  EXPECT_EQ(writer_->committed_count(), kCount);
}

class DraftRingTest : public RingTest {
 protected:
  void SetUp() override {
    arena_bytes_ = 3 * chunk::kPieceBytes + kChunkAlignment;
    Begin(/*committed=*/5);
    writer_->KeepDrafts(true);
  }

  chunk::Draft Draft(uint64_t piece) const {
    return chunk::Draft(
        ArenaBytes().subspan(piece * chunk::kPieceBytes, chunk::kPieceBytes));
  }

  // Returns the pieces that the daemon would take, in order.
  std::vector<uint64_t> Taken() const {
    std::vector<uint64_t> out;
    for (const auto& piece : reader_->Drafts()) {
      EXPECT_EQ(piece.size(), chunk::kPieceBytes);
      const auto at = piece.data() - reader_->arena()->bytes().data();
      out.push_back(static_cast<uint64_t>(at) / chunk::kPieceBytes);
    }
    return out;
  }
};

TEST_F(DraftRingTest, DraftsComeInTheOrderInWhichTheyWereBegun) {
  EXPECT_EQ(Taken(), std::vector<uint64_t>());
  Draft(0).Start(/*number=*/8, 0, 0);
  Draft(1).Start(/*number=*/9, 0, 0);
  Draft(2).Start(/*number=*/7, 0, 0);
  EXPECT_EQ(Taken(), (std::vector<uint64_t>{2, 0, 1}));
  Draft(0).End();
  EXPECT_EQ(Taken(), (std::vector<uint64_t>{2, 1}));
}

TEST_F(DraftRingTest, WhatWasPublishedIsNoDraft) {
  for (uint64_t piece = 0; piece < 3; ++piece) Draft(piece).Start(1, 0, 0);
  // The drafts were sent in an earlier session, in this one, and not at all.
  Draft(0).SetSent(4);
  Draft(1).SetSent(5);
  Draft(2).SetSent(6);
  const uint64_t last_page = 3 * chunk::kPieceBytes / kChunkAlignment;
  ASSERT_TRUE(writer_->Publish(Page(last_page, 1)));
  EXPECT_EQ(Taken(), (std::vector<uint64_t>{1, 2}));
  ASSERT_TRUE((*reader_->Next()).has_value());
  EXPECT_EQ(Taken(), (std::vector<uint64_t>{2}));
}

TEST_F(DraftRingTest, ProducerThatDoesNotKeepDraftsHasNone) {
  Draft(0).Start(1, 0, 0);
  EXPECT_EQ(Taken().size(), 1u);
  writer_->KeepDrafts(false);
  EXPECT_EQ(Taken().size(), 0u);
}

}  // namespace
}  // namespace msitd::shm
