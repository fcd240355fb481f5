// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/step_room.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "client/libmsit/core/delivery/slot_pool.h"
#include "protos/base/limits.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

namespace msitd::libmsit {
namespace {

constexpr uint64_t kChunk = kChunkPayloadBytesMax;

TEST(StepRoomTest, TheFirstStepMayHaveAll) {
  StepRoom room(4, 100);
  for (int i = 0; i < 50; ++i) room.Count(7, kChunk);
  EXPECT_EQ(room.slot_count(), 100u);
}

TEST(StepRoomTest, TwoOfTheFirstStepFit) {
  StepRoom room(4, 100);
  for (int i = 0; i < 20; ++i) room.Count(0, kChunk);
  room.Count(1, kChunk);
  EXPECT_EQ(room.slot_count(), 42u);
}

TEST(StepRoomTest, SmallStepsKeepTheLeast) {
  StepRoom room(14, 100);
  for (int64_t token = 0; token < 10; ++token) room.Count(token, 1000);
  EXPECT_EQ(room.slot_count(), 14u);
}

TEST(StepRoomTest, LargeStepsGetTheMost) {
  StepRoom room(4, 100);
  for (int i = 0; i < 80; ++i) room.Count(0, kChunk);
  room.Count(1, 0);
  EXPECT_EQ(room.slot_count(), 100u);
}

TEST(StepRoomTest, TheLargestStepCounts) {
  StepRoom room(4, 100);
  room.Count(0, kChunk);
  for (int i = 0; i < 30; ++i) room.Count(1, kChunk);
  EXPECT_EQ(room.slot_count(), 4u) << "the second step is not over";
  room.Count(2, kChunk);
  EXPECT_EQ(room.slot_count(), 62u);
  room.Count(3, kChunk);
  EXPECT_EQ(room.slot_count(), 62u);
}

TEST(StepRoomTest, WhatComesLateBelongsToTheStepThatRuns) {
  StepRoom room(4, 100);
  room.Count(5, kChunk);
  for (int i = 0; i < 9; ++i) room.Count(2, kChunk);
  EXPECT_EQ(room.slot_count(), 100u);
  room.Count(6, kChunk);
  EXPECT_EQ(room.slot_count(), 22u);
}

TEST(StepRoomTest, APoolGivesUpWhatTheFirstStepDoesNotNeed) {
  SlotPool pool(StepRoom(2, 6));
  std::vector<Slot*> slots;
  for (int i = 0; i < 6; ++i) slots.push_back(pool.Acquire());
  EXPECT_NE(slots.back(), nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
  for (int i = 0; i < 2; ++i) pool.Release(slots[i]);
  pool.CountChunk(0, kChunk / 2);
  pool.CountChunk(1, 0);
  EXPECT_EQ(pool.capacity(), 3u);
  EXPECT_EQ(pool.used_count(), 4u);
  EXPECT_EQ(pool.free_count(), 0u);
  EXPECT_EQ(pool.Acquire(), nullptr);
  for (int i = 2; i < 6; ++i) pool.Release(slots[i]);
  EXPECT_EQ(pool.used_count(), 0u);
  EXPECT_EQ(pool.free_count(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_NE(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
}

class StepRoomClientTest : public ClientTest {
 protected:
  StepRoomClientTest() {
    options_.buffer_bytes = kBufferAuto;
    options_.auto_bytes_max = 30 * kSlotBytes;
    options_.max_block = milliseconds(0);
    daemon_.StopAcknowledging();
  }

  // Records `count` tensors of one chunk each, and returns how many the client
  // accepts.
  int Taken(int count) {
    int taken = 0;
    for (int i = 0; i < count; ++i) {
      taken += Record("op", kPartBytes).ok() ? 1 : 0;
    }
    return taken;
  }
};

TEST_F(StepRoomClientTest, HoldsAsMuchAsThereIsOfTheFirstStep) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Taken(40), 30) << "as many as there may ever be";
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count, 30u);
}

TEST_F(StepRoomClientTest, LaterStepsHaveTwiceTheRoomOfTheLargest) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Taken(10), 10);
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  daemon_.StopAcknowledging();
  client_->NextToken();
  // The chunk that reports the end of the first step is one of them.
  EXPECT_EQ(Taken(40), 22);
}

TEST_F(StepRoomClientTest, ASizeThatWasChosenStays) {
  options_.buffer_bytes = 5 * kSlotBytes;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Taken(10), 5);
}

}  // namespace
}  // namespace msitd::libmsit
