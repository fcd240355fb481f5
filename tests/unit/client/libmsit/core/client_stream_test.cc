// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "client/libmsit/core/client.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of the client when memory is full and when the stream breaks.
namespace msitd::libmsit {
namespace {

class OverflowTest : public ClientTest {
 protected:
  OverflowTest() {
    options_.buffer_bytes = 2 * kSlotBytes;
    daemon_.StopAcknowledging();
  }
};

TEST_F(OverflowTest, FullMemoryBlocksUntilThereIsRoom) {
  ASSERT_TRUE(Open().ok());
  FillSlots();
  std::thread other([this] {
    EXPECT_TRUE(daemon_.WaitForChunks(2));
    daemon_.CommitAll();
  });
  EXPECT_TRUE(Record("late", 10).ok());
  other.join();
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().dropped_count, 0u);
  EXPECT_EQ(client_->counters().acknowledged_count, 3u);
}

TEST_F(OverflowTest, RecordIsDroppedAndCountedAtTheDeadline) {
  options_.max_block = milliseconds(2);
  ASSERT_TRUE(Open().ok());
  FillSlots();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_DROPPED);
  EXPECT_GE(std::chrono::steady_clock::now() - start, options_.max_block);
  EXPECT_EQ(client_->counters().dropped_count, 1u);
  EXPECT_EQ(client_->counters().recorded_count, 2u);
}

TEST_F(OverflowTest, OnlyOneRecordWaitsForADaemonThatIsGone) {
  options_.max_block = seconds(1);
  ASSERT_TRUE(Open().ok());
  FillSlots();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_DROPPED);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  EXPECT_EQ(client_->counters().dropped_count, 1000u);

  daemon_.CommitAll();
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_TRUE(Record("again", 10).ok());
}

TEST_F(OverflowTest, LargeTensorGivenUpHalfwayCountsOnce) {
  options_.max_block = milliseconds(1);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Record("large", 5 * kPartBytes).code, MSIT_ERROR_DROPPED);
  daemon_.CommitAll();
  EXPECT_TRUE(client_->Flush(kLong).ok());
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.truncated_count, 1u);
  EXPECT_EQ(counters.dropped_count, 0u);
  EXPECT_EQ(counters.recorded_count, 0u);
  EXPECT_EQ(counters.acknowledged_count, 0u);
}

TEST_F(OverflowTest, LargeTensorMayBeLargerThanTheMemory) {
  daemon_.CommitAll();
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("large", 9 * kPartBytes + 1).ok());
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Arrivals().size(), 10u);
}

TEST_F(OverflowTest, DropsAreReportedToTheDaemon) {
  options_.max_block = milliseconds(0);
  ASSERT_TRUE(Open().ok());
  FillSlots();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_DROPPED);
  }
  daemon_.CommitAll();
  EXPECT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(daemon_.coverage(),
            (StreamCoverage{.seen_count = 7, .dropped_count = 5}));
}

TEST_F(OverflowTest, DropsAreReportedThoughNothingIsRecordedAfterwards) {
  options_.max_block = milliseconds(0);
  options_.report_interval = milliseconds(1);
  ASSERT_TRUE(Open().ok());
  FillSlots();
  for (uint64_t count = 1; count <= 3; ++count) {
    EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_DROPPED);
    EXPECT_TRUE(daemon_.WaitForCoverage(
        {.seen_count = 2 + count, .dropped_count = count}));
  }
}

TEST_F(OverflowTest, TheDaemonHearsOfTokensOfWhichNothingIsRecorded) {
  options_.report_interval = milliseconds(1);
  ASSERT_TRUE(Open().ok());
  client_->Selects(41, "op", Io::kOutput);
  EXPECT_TRUE(daemon_.WaitForTokenEnd(42));
  // A new token is reported within a second, even if lower tokens are still in
  // use.
  client_->Selects(43, "op", Io::kOutput);
  client_->Selects(7, "op", Io::kOutput);
  EXPECT_TRUE(daemon_.WaitForTokenEnd(44));
  daemon_.Break(StreamEnd::kLost, "gone");
  EXPECT_TRUE(daemon_.WaitForTokenEnd(44));
  EXPECT_EQ(daemon_.coverage(), StreamCoverage());
}

TEST_F(OverflowTest, EachConnectionIsToldTheTotals) {
  options_.report_interval = milliseconds(1);
  daemon_.CommitAll();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_TRUE(daemon_.WaitForCoverage({.seen_count = 1}));
  daemon_.Wipe();
  daemon_.Break(StreamEnd::kLost, "gone");
  EXPECT_TRUE(daemon_.WaitForCoverage({.seen_count = 1}));
}

TEST_F(OverflowTest, ReportsAreFewHoweverManyTheRecordsAre) {
  options_.report_interval = std::chrono::hours(1);
  options_.linger = milliseconds(0);
  daemon_.CommitAll();
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Record("op", 10).ok());
    ASSERT_TRUE(client_->Flush(kLong).ok());
  }
  // One report for the connection, and one for the first token.
  EXPECT_LE(daemon_.report_count(), 2u);
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_LE(daemon_.report_count(), 3u);
  EXPECT_EQ(daemon_.coverage(), StreamCoverage{.seen_count = 100});
}

TEST_F(OverflowTest, TimeOfRecordingIsReported) {
  options_.max_block = milliseconds(30);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Open().ok());
  FillSlots();
  EXPECT_EQ(Record("waits", 10).code, MSIT_ERROR_DROPPED);
  daemon_.CommitAll();
  client_->Enter();
  std::this_thread::sleep_for(milliseconds(20));
  client_->Leave();
  // The last calls are reported when the client is closed.
  EXPECT_TRUE(client_->Close(kLong).ok());
  const std::chrono::nanoseconds wall =
      std::chrono::steady_clock::now() - begin;
  const RecordingTime::Times told = daemon_.times();
  EXPECT_GE(told.recording_ns, 49'000'000u);
  EXPECT_LT(told.recording_ns, told.open_ns);
  EXPECT_LE(told.open_ns, static_cast<uint64_t>(wall.count()));
  const ClientCounters counters = client_->counters();
  EXPECT_NEAR(static_cast<double>(counters.recording_ns),
              static_cast<double>(told.recording_ns), 1e6);
  EXPECT_GE(counters.open_ns, told.open_ns);
}

TEST_F(OverflowTest, FlushRunsOutOfTimeWithoutLosingAnything) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_EQ(client_->Flush(milliseconds(1)).code, MSIT_ERROR_TIMEOUT);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
  daemon_.CommitAll();
  EXPECT_TRUE(client_->Flush(kLong).ok());
}

TEST_F(OverflowTest, CloseDropsWhatIsNotAcknowledgedInTime) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_EQ(client_->Close(milliseconds(1)).code, MSIT_ERROR_TIMEOUT);
  EXPECT_EQ(client_->counters().dropped_count, 2u);
}

TEST_F(OverflowTest, CloseWakesRecordsThatWait) {
  ASSERT_TRUE(Open().ok());
  FillSlots();
  std::thread waiting([this] {
    const msit_code code = Record("late", 10).code;
    EXPECT_EQ(code, MSIT_ERROR_CLOSED);
  });
  client_->Close(milliseconds(0));
  waiting.join();
  EXPECT_EQ(client_->counters().dropped_count, 3u);
}

TEST_F(OverflowTest, MemoryThatTheTransportKeepsOutlivesTheClient) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  daemon_.KeepChunks();
  EXPECT_EQ(client_->Close(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  client_.reset();
  // The daemon that keeps the memory unmaps it.
  const auto memory = daemon_.kept_memory();
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].size(), kSlotBytes);
  EXPECT_TRUE(std::any_of(memory[0].begin(), memory[0].end(),
                          [](std::byte byte) { return byte != std::byte{0}; }))
      << "the chunk is still there";
}

using StreamTest = ClientTest;

TEST_F(StreamTest, ResendsWhatWasNotCommittedAfterABreak) {
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Record("op" + std::to_string(i), kPartBytes).ok());
  }
  EXPECT_EQ(client_->Flush(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  ASSERT_TRUE(daemon_.WaitForChunks(4));
  daemon_.Commit(1);
  daemon_.Break(StreamEnd::kLost, "UNAVAILABLE: gone");
  ASSERT_TRUE(daemon_.WaitForChunks(4));
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(arrived[i].key.op, "op" + std::to_string(i));
  }
  EXPECT_EQ(daemon_.arrival_count(), 7u);
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
  EXPECT_EQ(client_->counters().reconnect_count, 1u);
  EXPECT_EQ(client_->stream_error(), "");
}

TEST_F(StreamTest, AcknowledgementThatTheBreakSwallowedIsLearntOnReopening) {
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", kPartBytes).ok());
  EXPECT_EQ(client_->Flush(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  ASSERT_TRUE(daemon_.WaitForChunks(1));
  daemon_.Commit(1);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  daemon_.CommitAll();
  ASSERT_TRUE(Record("next", 1).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Arrivals().size(), 2u);
  EXPECT_EQ(daemon_.arrival_count(), 2u);
}

TEST_F(StreamTest, RefusedChunkIsDroppedAndTheStreamGoesOn) {
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("first", kPartBytes).ok());
  EXPECT_EQ(client_->Flush(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  ASSERT_TRUE(daemon_.WaitForChunks(1));
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  daemon_.RefuseNextChunk();
  ASSERT_TRUE(Record("refused", kPartBytes).ok());
  ASSERT_TRUE(Record("third", kPartBytes).ok());
  ASSERT_TRUE(Record("fourth", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[0].key.op, "first");
  EXPECT_EQ(arrived[1].key.op, "third");
  EXPECT_EQ(arrived[2].key.op, "fourth");
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.refused_chunk_count, 1u);
  EXPECT_EQ(counters.dropped_count, 1u);
  EXPECT_EQ(counters.acknowledged_count, 3u);
  EXPECT_EQ(client_->stream_error(), "bad chunk");
}

TEST_F(StreamTest, DaemonWithANewStoreIsServedFromZero) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("lost", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  daemon_.Wipe();
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  ASSERT_TRUE(Record("next", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].key.op, "next");
}

TEST_F(StreamTest, OpenWaitsForADaemonThatIsLate) {
  daemon_.RefuseOpening(StreamEnd::kLost, "UNAVAILABLE: not yet");
  std::thread other([this] {
    EXPECT_TRUE(daemon_.WaitForOpenings(3));
    daemon_.AcceptOpening();
  });
  EXPECT_TRUE(Open().ok());
  other.join();
}

TEST_F(StreamTest, AnAnswerBehindTheEndOpensNothing) {
  daemon_.RefuseOpening(StreamEnd::kLost, "UNAVAILABLE: not yet");
  daemon_.CommitDuringStop(0);
  options_.open_timeout = seconds(0);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  daemon_.AcceptOpening();
  ASSERT_TRUE(Record("a", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().reconnect_count, 0u);
}

TEST_F(StreamTest, OpenFailsAfterItsTimeout) {
  daemon_.RefuseOpening(StreamEnd::kLost, "UNAVAILABLE: nobody home");
  options_.open_timeout = milliseconds(20);
  const Status status = Open();
  EXPECT_EQ(status.code, MSIT_ERROR_UNAVAILABLE);
  EXPECT_EQ(status.message, "UNAVAILABLE: nobody home");
  EXPECT_EQ(client_, nullptr);
}

TEST_F(StreamTest, OpenFailsAtOnceIfTheDaemonWantsNoSuchStream) {
  daemon_.RefuseOpening(StreamEnd::kRefused,
                        "FAILED_PRECONDITION: sealed [RUN_SEALED]");
  const Status status = Open();
  EXPECT_EQ(status.code, MSIT_ERROR_REFUSED);
  EXPECT_EQ(status.message, "FAILED_PRECONDITION: sealed [RUN_SEALED]");
}

TEST_F(StreamTest, MalformedOpeningIsForGood) {
  daemon_.RefuseOpening(StreamEnd::kChunkRefused, "INVALID_ARGUMENT: no");
  EXPECT_EQ(Open().code, MSIT_ERROR_REFUSED);
}

TEST_F(StreamTest, OpenWithoutWaitingRecordsBeforeTheDaemonIsThere) {
  daemon_.RefuseOpening(StreamEnd::kLost, "UNAVAILABLE: not yet");
  options_.open_timeout = seconds(0);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("early", 10).ok());
  daemon_.AcceptOpening();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Arrivals().size(), 1u);
}

TEST_F(StreamTest, SilentDaemonIsOpenedAgain) {
  daemon_.IgnoreOpening();
  options_.open_timeout = seconds(0);
  options_.answer_timeout = milliseconds(1);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(daemon_.WaitForOpenings(3));
  daemon_.AcceptOpening();
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_TRUE(client_->Flush(kLong).ok());
}

TEST_F(StreamTest, RunSealedWhileRecordingDropsTheRestAtOnce) {
  options_.buffer_bytes = 2 * kSlotBytes;
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  FillSlots();
  std::thread waiting(
      [this] { EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_DROPPED); });
  daemon_.Break(StreamEnd::kRefused, "sealed");
  waiting.join();
  EXPECT_EQ(Record("later", 10).code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_REFUSED);
  EXPECT_EQ(client_->counters().dropped_count, 4u);
  EXPECT_EQ(client_->stream_error(), "sealed");
  EXPECT_EQ(client_->Close(kLong).code, MSIT_ERROR_REFUSED);
}

TEST_F(StreamTest, DaemonThatAcknowledgesWhatItCannotHaveIsLeft) {
  ASSERT_TRUE(Open().ok());
  daemon_.ClaimCommitted(1000);
  EXPECT_EQ(client_->Close(kLong).code, MSIT_ERROR_REFUSED);
}

}  // namespace
}  // namespace msitd::libmsit
