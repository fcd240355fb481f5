// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "client/libmsit/core/delivery/delivery_ledger.h"
#include "client/libmsit/core/delivery/delivery_queue.h"
#include "client/libmsit/core/delivery/slot_pool.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::libmsit {
namespace {

class DeliveryQueueTest : public testing::Test {
 protected:
  DeliveryQueueTest() : pool_(16) {}

  Slot* Push(int64_t token = 0) {
    Slot* slot = pool_.Acquire();
    slot->token = token;
    slot->builder.Start("run", 0, 1, 0);
    chunk::RecordSpec empty;
    empty.op = "op";
    slot->builder.Add(empty);
    queue_.Push(slot);
    return slot;
  }

  // Takes the next chunk and returns its number in the stream.
  int64_t Take() {
    const Slot* slot = queue_.TakeNext();
    if (slot == nullptr) return -1;
    chunk::ChunkHeader header;
    std::memcpy(&header, slot->chunk.data(), sizeof(header));
    return static_cast<int64_t>(header.chunk_sequence);
  }

  int PopCommitted() {
    int count = 0;
    while (queue_.PopCommitted() != nullptr) ++count;
    return count;
  }

  SlotPool pool_;
  DeliveryQueue queue_;
};

TEST_F(DeliveryQueueTest, NumbersChunksAsTheyAreSent) {
  Push();
  Push();
  ASSERT_TRUE(queue_.Reopen(0));
  EXPECT_EQ(Take(), 0);
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), -1);
  EXPECT_TRUE(queue_.SetCommitted(2));
  EXPECT_EQ(PopCommitted(), 2);
  Push();
  EXPECT_EQ(Take(), 2);
}

TEST_F(DeliveryQueueTest, WaitsForAWriter) {
  Slot* slot = Push();
  slot->writer_count = 1;
  ASSERT_TRUE(queue_.Reopen(0));
  EXPECT_EQ(Take(), -1);
  slot->writer_count = 0;
  EXPECT_EQ(Take(), 0);
}

TEST_F(DeliveryQueueTest, SendsAgainWhatWasNotCommitted) {
  for (int i = 0; i < 4; ++i) Push();
  ASSERT_TRUE(queue_.Reopen(0));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Take(), i);
  ASSERT_TRUE(queue_.Reopen(2));
  EXPECT_EQ(PopCommitted(), 2);
  EXPECT_EQ(Take(), 2);
  EXPECT_EQ(Take(), 3);
  EXPECT_EQ(Take(), -1);
}

TEST_F(DeliveryQueueTest, ChunkAfterARefusedOneTakesItsNumber) {
  for (int i = 0; i < 3; ++i) Push();
  ASSERT_TRUE(queue_.Reopen(0));
  for (int i = 0; i < 3; ++i) Take();
  ASSERT_TRUE(queue_.SetCommitted(1));
  EXPECT_EQ(PopCommitted(), 1);
  EXPECT_NE(queue_.PopRefused(), nullptr);
  ASSERT_TRUE(queue_.Reopen(1));
  EXPECT_EQ(PopCommitted(), 0);
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), -1);
}

TEST_F(DeliveryQueueTest, DaemonThatLostEverythingStartsAtZero) {
  for (int i = 0; i < 3; ++i) Push();
  ASSERT_TRUE(queue_.Reopen(0));
  for (int i = 0; i < 3; ++i) Take();
  ASSERT_TRUE(queue_.SetCommitted(2));
  EXPECT_EQ(PopCommitted(), 2);
  ASSERT_TRUE(queue_.Reopen(0));
  EXPECT_EQ(PopCommitted(), 0);
  EXPECT_EQ(Take(), 0);
  EXPECT_FALSE(queue_.SetCommitted(2)) << "two chunks, but one was sent";
}

TEST_F(DeliveryQueueTest, RefusesClaimsThatCannotBeTrue) {
  Push();
  EXPECT_FALSE(queue_.Reopen(1)) << "nothing was sent";
  ASSERT_TRUE(queue_.Reopen(0));
  EXPECT_FALSE(queue_.SetCommitted(1)) << "nothing was sent";
  Take();
  EXPECT_TRUE(queue_.SetCommitted(1));
  EXPECT_FALSE(queue_.SetCommitted(0)) << "one was committed";
}

TEST_F(DeliveryQueueTest, KnowsWhatHasLeft) {
  Push();
  Push();
  EXPECT_EQ(queue_.pushed_count(), 2u);
  EXPECT_TRUE(queue_.HaveLeft(0));
  EXPECT_NE(queue_.PopFront(), nullptr);
  EXPECT_TRUE(queue_.HaveLeft(1));
  EXPECT_FALSE(queue_.HaveLeft(2));
  EXPECT_EQ(queue_.pushed_count(), 2u);
  EXPECT_EQ(queue_.PopRefused(), nullptr) << "nothing was sent";
}

TEST_F(DeliveryQueueTest, ChunkThatIsTakenOutLeavesNoGap) {
  Push(1);
  Slot* second = Push(2);
  Push(3);
  EXPECT_EQ(queue_.TakeOut(2), second);
  EXPECT_EQ(queue_.TakeOut(2), nullptr);
  EXPECT_EQ(queue_.pushed_count(), 3u);
  EXPECT_FALSE(queue_.HaveLeft(1)) << "a later one has left before it";
  ASSERT_TRUE(queue_.Reopen(0));
  EXPECT_EQ(Take(), 0);
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(queue_.sent_count(), 2u);
  EXPECT_TRUE(queue_.SetCommitted(1));
  EXPECT_EQ(PopCommitted(), 1);
  EXPECT_EQ(queue_.sent_count(), 1u);
  EXPECT_TRUE(queue_.HaveLeft(2));
  EXPECT_FALSE(queue_.HaveLeft(3));
}

TEST_F(DeliveryQueueTest, OnlyChunksThatNobodyHasMayBeTakenOut) {
  Push(5);
  Push(4);
  Slot* written = Push(3);
  Slot* free = Push(6);
  Push(7);
  written->writer_count = 1;
  ASSERT_TRUE(queue_.Reopen(0));
  Take();
  Take();
  ASSERT_TRUE(queue_.Reopen(0)) << "the daemon may have both all the same";
  EXPECT_EQ(queue_.OldestToken(), 6);
  EXPECT_EQ(queue_.TakeOut(5), nullptr);
  EXPECT_EQ(queue_.TakeOut(3), nullptr);
  EXPECT_EQ(queue_.TakeOut(6), free);
  written->writer_count = 0;
  EXPECT_EQ(queue_.OldestToken(), 3);
  EXPECT_EQ(queue_.TakeOut(3), written);
  EXPECT_EQ(queue_.OldestToken(), 7);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(), i);
  EXPECT_EQ(queue_.OldestToken(), std::nullopt);
}

TEST_F(DeliveryQueueTest, ChunksBehindARefusedOneMayBeTakenOut) {
  Push(1);
  Push(2);
  ASSERT_TRUE(queue_.Reopen(0));
  Take();
  Take();
  EXPECT_NE(queue_.PopRefused(), nullptr);
  EXPECT_EQ(queue_.OldestToken(), 2);
}

ChunkContents Whole(uint64_t count, uint64_t bytes) {
  ChunkContents contents;
  contents.tensor_count = count;
  contents.tensor_bytes = bytes;
  return contents;
}

enum class Place { kFirst, kMiddle, kLast };

ChunkContents Part(uint64_t sequence, Place place) {
  ChunkContents contents;
  contents.parts.push_back({.sequence = sequence,
                            .tensor_bytes = 100,
                            .is_first = place == Place::kFirst,
                            .is_last = place == Place::kLast});
  return contents;
}

TEST(DeliveryLedgerTest, AcknowledgesALargeTensorWithItsLastPart) {
  DeliveryLedger ledger;
  ledger.Acknowledge(Part(1, Place::kFirst));
  EXPECT_EQ(ledger.acknowledged_count(), 0u);
  ledger.Acknowledge(Part(1, Place::kLast));
  EXPECT_EQ(ledger.acknowledged_count(), 1u);
  EXPECT_EQ(ledger.acknowledged_bytes(), 100u);
}

TEST(DeliveryLedgerTest, ALargeTensorIsDroppedOnceAndNotAcknowledged) {
  DeliveryLedger ledger;
  ledger.DropChunk(Part(1, Place::kFirst));
  ledger.Acknowledge(Part(1, Place::kMiddle));
  ledger.DropChunk(Part(1, Place::kMiddle));
  ledger.Acknowledge(Part(1, Place::kLast));
  EXPECT_EQ(ledger.coverage(), StreamCoverage{.dropped_count = 1});
  EXPECT_EQ(ledger.acknowledged_count(), 0u);
}

TEST(DeliveryLedgerTest, ALargeTensorThatLosesALaterPartIsTruncatedOnce) {
  DeliveryLedger ledger;
  ledger.Acknowledge(Part(1, Place::kFirst));
  ledger.DropChunk(Part(1, Place::kMiddle));
  ledger.DropChunk(Part(1, Place::kLast));
  EXPECT_EQ(ledger.coverage(), StreamCoverage{.truncated_count = 1});
  EXPECT_EQ(ledger.acknowledged_count(), 0u);
}

TEST(DeliveryLedgerTest, ALargeTensorThatLosesItsPartsInAnyOrderCountsOnce) {
  DeliveryLedger ledger;
  EXPECT_FALSE(ledger.IsBroken(1));
  ledger.DropChunk(Part(1, Place::kLast));
  EXPECT_TRUE(ledger.IsBroken(1));
  ledger.DropChunk(Part(1, Place::kMiddle));
  ledger.DropChunk(Part(1, Place::kFirst));
  EXPECT_EQ(ledger.coverage(), StreamCoverage{.truncated_count = 1});
}

TEST(DeliveryLedgerTest, TheOldestBrokenTensorsAreForgotten) {
  DeliveryLedger ledger;
  for (uint64_t i = 0; i <= DeliveryLedger::kBrokenMax; ++i) {
    ledger.DropChunk(Part(i, Place::kFirst));
  }
  EXPECT_FALSE(ledger.IsBroken(0));
  EXPECT_TRUE(ledger.IsBroken(1));
  EXPECT_TRUE(ledger.IsBroken(DeliveryLedger::kBrokenMax));
}

TEST(DeliveryLedgerTest, DegradedIsWhatIsAcknowledgedAsSummary) {
  DeliveryLedger ledger;
  ChunkContents contents = Whole(3, 30);
  contents.degraded_count = 2;
  ledger.DropChunk(contents);
  EXPECT_EQ(ledger.coverage().degraded_count, 0u);
  ledger.Acknowledge(contents);
  EXPECT_EQ(ledger.coverage().degraded_count, 2u);
  ChunkContents large = Part(9, Place::kFirst);
  large.parts[0].is_degraded = true;
  ledger.Acknowledge(large);
  EXPECT_EQ(ledger.coverage().degraded_count, 2u);
  large.parts[0].is_last = true;
  ledger.Acknowledge(large);
  EXPECT_EQ(ledger.coverage().degraded_count, 3u);
}

TEST(DeliveryLedgerTest, ARecordGivenUpHalfwayIsTruncatedOnce) {
  DeliveryLedger ledger;
  ledger.BreakOff(3);
  ledger.DropChunk(Part(3, Place::kFirst));
  EXPECT_EQ(ledger.coverage(),
            (StreamCoverage{.seen_count = 1, .truncated_count = 1}));
}

TEST(DeliveryLedgerTest, EveryRecordIsSeenOnce) {
  DeliveryLedger ledger;
  ledger.Record(10);
  ledger.SetFiltered(3);
  ledger.SetFiltered(5);
  ledger.Drop();
  ledger.BreakOff(3);
  ledger.CountInvalid();
  ledger.DropChunk(Whole(1, 10));
  EXPECT_EQ(ledger.coverage(), (StreamCoverage{.seen_count = 8,
                                               .filtered_count = 5,
                                               .dropped_count = 2,
                                               .truncated_count = 1}));
}

TEST(DeliveryLedgerTest, EachConnectionIsToldAllThatIsNew) {
  DeliveryLedger ledger;
  EXPECT_TRUE(ledger.has_unreported()) << "that nothing was handed over";
  EXPECT_EQ(ledger.TakeReport(), StreamCoverage());
  EXPECT_FALSE(ledger.has_unreported());
  ledger.Drop();
  EXPECT_TRUE(ledger.has_unreported());
  const StreamCoverage told = ledger.TakeReport();
  EXPECT_FALSE(ledger.has_unreported());
  ledger.ReportAgain();
  EXPECT_TRUE(ledger.has_unreported());
  EXPECT_EQ(ledger.TakeReport(), told);
}

TEST(SlotPoolTest, IsBoundedAndReusesTheWarmestSlot) {
  SlotPool pool(2);
  Slot* first = pool.Acquire();
  Slot* second = pool.Acquire();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.used_count(), 2u);
  pool.Release(first);
  pool.Release(second);
  EXPECT_EQ(pool.used_count(), 0u);
  EXPECT_EQ(pool.Acquire(), second);
}

class SharedPoolTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = chunk::ChunkBuilder::kBufferBytes;

  std::span<std::byte> Memory(size_t pieces) {
    memory_ = AlignedBuffer(pieces * kBytes + 100);
    return memory_.span();
  }

  bool IsShared(const Slot* slot) const {
    return slot->memory.bytes().data() >= memory_.data() &&
           slot->memory.bytes().data() < memory_.data() + memory_.size();
  }

  // Fills and completes a chunk with one record of `value`, and returns its
  // slot.
  Slot* Complete(SlotPool& pool, int value) {
    Slot* slot = pool.Acquire();
    slot->builder.Start("run", 0, 1, 0);
    chunk::RecordSpec record;
    record.op = "op";
    record.part_bytes = 1000;
    const std::span<std::byte> payload = slot->builder.Add(record);
    std::memset(payload.data(), value, payload.size());
    const auto chunk = slot->builder.Finish(0);
    const std::span<std::byte> bytes = slot->memory.bytes();
    slot->chunk = bytes.subspan(
        static_cast<size_t>(chunk.data() - bytes.data()), chunk.size());
    return slot;
  }

  AlignedBuffer memory_;
};

TEST_F(SharedPoolTest, SlotsArePiecesOfTheSharedMemory) {
  SlotPool pool(3);
  pool.Share(Memory(3));
  Slot* first = pool.Acquire();
  Slot* second = pool.Acquire();
  EXPECT_TRUE(IsShared(first));
  EXPECT_TRUE(IsShared(second));
  EXPECT_NE(first->memory.bytes().data(), second->memory.bytes().data());
  EXPECT_TRUE(pool.MoveToShared(first));
  EXPECT_NE(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
}

TEST_F(SharedPoolTest, MemoryThatHoldsFewerSlotsIsTheBound) {
  SlotPool pool(5);
  pool.Share(Memory(2));
  EXPECT_EQ(pool.capacity(), 2u);
  EXPECT_NE(pool.Acquire(), nullptr);
  EXPECT_NE(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
}

TEST_F(SharedPoolTest, ChunkThatWasBegunBeforeIsMovedAsItIs) {
  SlotPool pool(2);
  Slot* slot = Complete(pool, 5);
  const std::vector<std::byte> before(slot->chunk.begin(), slot->chunk.end());
  EXPECT_TRUE(pool.MoveToShared(slot)) << "there is nothing to move to";
  pool.Share(Memory(2));
  EXPECT_FALSE(IsShared(slot));
  ASSERT_TRUE(pool.MoveToShared(slot));
  EXPECT_TRUE(IsShared(slot));
  EXPECT_EQ(std::vector(slot->chunk.begin(), slot->chunk.end()), before);
  EXPECT_GE(slot->chunk.data(), memory_.data());
}

TEST_F(SharedPoolTest, FreeSlotsFromBeforeAreGivenUp) {
  SlotPool pool(2);
  pool.Release(pool.Acquire());
  Slot* used = pool.Acquire();
  pool.Share(Memory(2));
  EXPECT_TRUE(IsShared(pool.Acquire()));
  EXPECT_EQ(pool.Acquire(), nullptr);
  pool.Release(used);
  EXPECT_TRUE(IsShared(pool.Acquire()));
}

TEST_F(SharedPoolTest, MoreChunksThanPiecesAreMovedOneAfterAnother) {
  SlotPool pool(5);
  std::vector<Slot*> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(Complete(pool, i));
  pool.Share(Memory(2));
  for (size_t i = 0; i < 5; ++i) {
    // The piece of the second to last chunk is free again.
    if (i >= 2) {
      EXPECT_EQ(pool.Acquire(), nullptr);
      EXPECT_EQ(pool.MoveToShared(slots[i]), false) << i;
      pool.Release(slots[i - 2]);
    }
    EXPECT_TRUE(pool.MoveToShared(slots[i])) << i;
  }
  pool.Release(slots[3]);
  EXPECT_NE(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.used_count(), 2u);
}

}  // namespace
}  // namespace msitd::libmsit
