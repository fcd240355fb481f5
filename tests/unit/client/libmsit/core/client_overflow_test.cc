// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "client/libmsit/core/overflow.h"
#include "protos/capture/capture_policy.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of the records that are kept, and of the counters, when records arrive
// faster than they can be sent.
namespace msitd::libmsit {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(OverflowDecisionTest, DegradesBelowAQuarterUntilHalfIsFree) {
  Overflow overflow(OverflowMode::kDegrade, seconds(1));
  EXPECT_FALSE(overflow.MustDegrade(16, 16));
  EXPECT_FALSE(overflow.MustDegrade(4, 16));
  EXPECT_TRUE(overflow.MustDegrade(3, 16));
  EXPECT_TRUE(overflow.MustDegrade(7, 16));
  EXPECT_FALSE(overflow.MustDegrade(8, 16));
  EXPECT_FALSE(overflow.MustDegrade(4, 16));
}

TEST(OverflowDecisionTest, FewSlotsDegradeWhileAChunkOfSummariesStillHasRoom) {
  Overflow overflow(OverflowMode::kDegrade, seconds(1));
  EXPECT_FALSE(overflow.MustDegrade(2, 3));
  EXPECT_TRUE(overflow.MustDegrade(1, 3));
  EXPECT_FALSE(overflow.MustDegrade(2, 3));
  EXPECT_FALSE(overflow.MustDegrade(1, 2)) << "the other slot is in use";
  EXPECT_TRUE(overflow.MustDegrade(0, 2));
}

TEST(OverflowDecisionTest, OnlyDegradeDegrades) {
  for (const OverflowMode mode :
       {OverflowMode::kBlock, OverflowMode::kDropNewest,
        OverflowMode::kDropOldestToken}) {
    EXPECT_FALSE(Overflow(mode, seconds(1)).MustDegrade(0, 16));
  }
}

TEST(OverflowDecisionTest, OnlyProgressOfTheDaemonEndsAStall) {
  using Clock = Overflow::Clock;
  Overflow overflow(OverflowMode::kBlock, seconds(1));
  const Clock::time_point now;
  EXPECT_EQ(overflow.DeadlineFor(now), now + seconds(1));
  overflow.OnTimeout();
  EXPECT_EQ(overflow.DeadlineFor(now), now);
  overflow.OnProgress();
  EXPECT_EQ(overflow.DeadlineFor(now), now + seconds(1));
}

class OverflowModeTest : public ClientTest {
 protected:
  // Opens a client with `slot_count` slots. The daemon accepts no chunks yet.
  void OpenWith(OverflowMode mode, uint64_t slot_count) {
    options_.overflow = mode;
    options_.buffer_bytes = slot_count * kSlotBytes;
    daemon_.StopAcknowledging();
    ASSERT_TRUE(Open().ok());
  }

  Status RecordAt(int64_t token, size_t bytes, const std::string& op = "op") {
    const Status set = client_->SetToken(token);
    return set.ok() ? Record(op, bytes) : set;
  }

  // Lets the daemon accept all chunks, and checks the counters against the
  // records that arrived.
  void Deliver() {
    daemon_.CommitAll();
    ASSERT_TRUE(client_->Flush(kLong).ok());
    std::map<uint64_t, uint64_t> missing;
    for (const Arrived& arrived : Arrivals()) {
      const auto [it, is_new] =
          missing.try_emplace(arrived.sequence, arrived.tensor_bytes);
      it->second -= arrived.part_bytes;
    }
    const auto whole_count = std::count_if(missing.begin(), missing.end(),
                                           [](auto& it) { return !it.second; });
    const ClientCounters counters = client_->counters();
    EXPECT_EQ(counters.acknowledged_count, static_cast<size_t>(whole_count));
    const Status closed = client_->Close(kLong);
    EXPECT_TRUE(closed.ok()) << closed.message;
    const StreamCoverage coverage = daemon_.coverage();
    EXPECT_EQ(coverage.seen_count,
              coverage.filtered_count + coverage.dropped_count +
                  coverage.truncated_count + counters.acknowledged_count);
    EXPECT_EQ(coverage.degraded_count, counters.degraded_count);
    EXPECT_EQ(coverage.dropped_count, counters.dropped_count);
    EXPECT_EQ(coverage.truncated_count, counters.truncated_count);
  }

  // Returns the ops that have arrived. Ops without bytes are in brackets.
  std::vector<std::string> Ops() {
    std::vector<std::string> ops;
    for (const Arrived& arrived : Arrivals()) {
      const bool has_bytes = arrived.kept == chunk::Kept::kAll;
      ops.push_back(has_bytes ? arrived.key.op : "(" + arrived.key.op + ")");
    }
    return ops;
  }

  std::vector<int64_t> Tokens() {
    std::vector<int64_t> tokens;
    for (const Arrived& arrived : Arrivals()) {
      tokens.push_back(arrived.key.token);
    }
    return tokens;
  }

  void AwaitAcknowledged(uint64_t count) {
    while (client_->counters().acknowledged_count < count) {
      std::this_thread::yield();
    }
  }
};

using DropNewestTest = OverflowModeTest;

TEST_F(DropNewestTest, NeverWaitsAndKeepsWhatCameFirst) {
  OpenWith(OverflowMode::kDropNewest, 2);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Record("a", kPartBytes).ok());
  EXPECT_TRUE(Record("b", kPartBytes).ok());
  EXPECT_EQ(Record("c", 10).code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(Record("d", 10).code, MSIT_ERROR_DROPPED);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
  Deliver();
  EXPECT_THAT(Ops(), ElementsAre("a", "b"));
  EXPECT_EQ(client_->counters().dropped_count, 2u);
}

// The daemon does not accept digests, so summaries need as much space as bytes.
class DegradeTest : public OverflowModeTest {
 protected:
  DegradeTest() { daemon_.SetChunkVersion(chunk::kStatisticsVersion); }

  // Records one chunk per record: seven of eight slots contain bytes.
  void FillUntilShort() {
    OpenWith(OverflowMode::kDegrade, 8);
    for (int i = 0; i < 7; ++i) {
      ASSERT_TRUE(Record("f" + std::to_string(i), kPartBytes).ok());
    }
  }
};

TEST_F(DegradeTest, KeepsTheSummaryOfEveryRecordThatFindsRoom) {
  options_.max_block = milliseconds(1);
  FillUntilShort();
  EXPECT_TRUE(Record("s", kPartBytes).ok());
  EXPECT_EQ(Record("none", kPartBytes).code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(client_->counters().degraded_count, 0u) << "not there yet";
  Deliver();
  EXPECT_THAT(Ops(), UnorderedElementsAre("f0", "f1", "f2", "f3", "f4", "f5",
                                          "f6", "(s)"));
  EXPECT_EQ(client_->counters().degraded_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 1u);
}

TEST_F(DegradeTest, SummariesNeedNoRoomIfTheClientMakesThem) {
  daemon_.SetChunkVersion(chunk::kVersion);
  options_.max_block = milliseconds(1);
  FillUntilShort();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Record("s", 2 * kPartBytes).ok());
  Deliver();
  const std::vector<std::string> ops = Ops();
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "(s)"), 100);
  EXPECT_EQ(client_->counters().degraded_count, 50u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(DegradeTest, ReturnsToBytesWhenHalfOfTheSlotsAreFree) {
  FillUntilShort();
  EXPECT_TRUE(Record("s0", kPartBytes).ok());
  // f6 and s0 are in open chunks.
  ASSERT_TRUE(daemon_.WaitForChunks(6));
  daemon_.Commit(2);
  AwaitAcknowledged(2);
  EXPECT_TRUE(Record("s1", kPartBytes).ok());
  daemon_.Commit(4);
  AwaitAcknowledged(4);
  EXPECT_TRUE(Record("s2", kPartBytes).ok());
  daemon_.Commit(6);
  AwaitAcknowledged(6);
  EXPECT_TRUE(Record("f7", kPartBytes).ok());
  Deliver();
  EXPECT_THAT(Ops(), UnorderedElementsAre("f0", "f1", "f2", "f3", "f4", "f5",
                                          "f6", "f7", "(s0)", "(s1)", "(s2)"));
  EXPECT_EQ(client_->counters().degraded_count, 3u);
}

TEST_F(DegradeTest, AllPartsOfATensorAreKeptAlike) {
  FillUntilShort();
  std::thread other([this] {
    EXPECT_TRUE(daemon_.WaitForChunks(7)) << "one part of `big`";
    daemon_.CommitAll();
  });
  EXPECT_TRUE(Record("big", 2 * kPartBytes + 1).ok());
  other.join();
  Deliver();
  const std::vector<std::string> ops = Ops();
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "(big)"), 3);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "big"), 0);
  EXPECT_EQ(client_->counters().degraded_count, 1u);
}

TEST_F(DegradeTest, WhatThePolicyAsksForAsSummaryIsNotDegraded) {
  capture::Rule summary;
  summary.level = capture::Level::kSummary;
  summary.tensors.op_patterns = {"s"};
  capture::Rule full;
  full.level = capture::Level::kFull;
  full.tensors.op_patterns = {"f*"};
  daemon_.SetPolicy(capture::Encode({{1, 0, {summary, full}}}));
  FillUntilShort();
  EXPECT_TRUE(Record("s", 10).ok());
  EXPECT_TRUE(Record("f", 10).ok());
  EXPECT_TRUE(Record("off", 10).ok());
  Deliver();
  EXPECT_EQ(client_->counters().degraded_count, 1u);
  EXPECT_EQ(client_->counters().filtered_count, 1u);
}

TEST_F(DegradeTest, CountsOnceOverABrokenConnection) {
  FillUntilShort();
  EXPECT_TRUE(Record("s", kPartBytes).ok());
  EXPECT_EQ(client_->Flush(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  ASSERT_TRUE(daemon_.WaitForChunks(8));
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForChunks(8));
  Deliver();
  EXPECT_EQ(client_->counters().degraded_count, 1u);
  EXPECT_EQ(client_->counters().acknowledged_count, 8u);
}

TEST_F(DegradeTest, SummaryThatIsDroppedAfterAllIsNotDegraded) {
  FillUntilShort();
  ASSERT_TRUE(daemon_.WaitForChunks(6));
  EXPECT_TRUE(Record("s", kPartBytes).ok());
  daemon_.Commit(6);
  AwaitAcknowledged(6);
  // This drops f6, which would be sent before s, and s.
  daemon_.Break(StreamEnd::kRefused, "sealed");
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_REFUSED);
  EXPECT_EQ(client_->counters().degraded_count, 0u);
  EXPECT_EQ(client_->counters().dropped_count, 2u);
}

class DropOldestTokenTest : public OverflowModeTest {
 protected:
  // There are four slots. Tokens 0 and 1 are being sent, and token 2 is not.
  void SendTwoTokens(size_t bytes = 10) {
    OpenWith(OverflowMode::kDropOldestToken, 4);
    for (int64_t token = 0; token < 3; ++token) {
      ASSERT_TRUE(RecordAt(token, bytes).ok());
    }
    ASSERT_TRUE(daemon_.WaitForChunks(2));
  }
};

TEST_F(DropOldestTokenTest, NewestTokensAreKeptWithoutWaiting) {
  SendTwoTokens();
  for (int64_t token = 3; token < 10; ++token) {
    EXPECT_TRUE(RecordAt(token, 10, "a").ok());
    EXPECT_TRUE(RecordAt(token, 10, "b").ok());
  }
  EXPECT_EQ(daemon_.arrival_count(), 2u) << "half of the slots";
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(0, 1, 8, 8, 9, 9));
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.dropped_count, 11u);
  EXPECT_EQ(counters.truncated_count, 0u);
  EXPECT_EQ(counters.recorded_count, 17u);
}

TEST_F(DropOldestTokenTest, AllWaitingChunksOfTheTokenGoAtOnce) {
  OpenWith(OverflowMode::kDropOldestToken, 7);
  ASSERT_TRUE(RecordAt(0, 3 * kPartBytes).ok());
  ASSERT_TRUE(RecordAt(1, kPartBytes).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(3));
  // Three slots are being sent, and one contains token 1.
  ASSERT_TRUE(RecordAt(1, kPartBytes).ok());
  ASSERT_TRUE(RecordAt(2, kPartBytes).ok());
  ASSERT_TRUE(RecordAt(2, kPartBytes).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(RecordAt(3, kPartBytes).ok());
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(0, 0, 0, 2, 2, 3, 3));
  EXPECT_EQ(client_->counters().dropped_count, 2u);
}

TEST_F(DropOldestTokenTest, TheOnlyTokenThatWaitsBlocksAndDropsTheNewest) {
  options_.max_block = milliseconds(2);
  OpenWith(OverflowMode::kDropOldestToken, 2);
  EXPECT_TRUE(RecordAt(5, kPartBytes, "a").ok());
  EXPECT_TRUE(RecordAt(5, kPartBytes, "b").ok());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(RecordAt(5, kPartBytes, "c").code, MSIT_ERROR_DROPPED);
  EXPECT_GE(std::chrono::steady_clock::now() - start, options_.max_block);
  EXPECT_EQ(RecordAt(4, kPartBytes, "older").code, MSIT_ERROR_DROPPED);
  Deliver();
  EXPECT_THAT(Ops(), ElementsAre("a", "b"));
}

TEST_F(DropOldestTokenTest, DaemonThatHangsCostsOneWaitAndNotOnePerToken) {
  options_.max_block = milliseconds(500);
  OpenWith(OverflowMode::kDropOldestToken, 2);
  const auto start = std::chrono::steady_clock::now();
  uint64_t dropped_count = 0;
  for (int64_t token = 0; token < 20; ++token) {
    // The first record replaces the previous token. The second
    // record finds no token to replace.
    for (int i = 0; i < 3; ++i) {
      const bool is_dropped =
          RecordAt(token, kPartBytes).code == MSIT_ERROR_DROPPED;
      dropped_count += is_dropped ? 1 : 0;
    }
  }
  // A wait for each token would take twice this time. Copies take time as well.
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10 * options_.max_block);
  EXPECT_GE(dropped_count, 20u);

  // Records wait again after the daemon has continued.
  daemon_.CommitAll();
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(RecordAt(20, kPartBytes).code, MSIT_OK);
  EXPECT_EQ(RecordAt(20, 3 * kPartBytes).code, MSIT_OK);
}

TEST_F(DropOldestTokenTest, RoomEndsTheWaitForTheOnlyToken) {
  OpenWith(OverflowMode::kDropOldestToken, 2);
  EXPECT_TRUE(RecordAt(5, kPartBytes).ok());
  EXPECT_TRUE(RecordAt(5, kPartBytes).ok());
  std::thread other([this] {
    EXPECT_TRUE(daemon_.WaitForChunks(1));
    daemon_.CommitAll();
  });
  EXPECT_TRUE(RecordAt(5, kPartBytes).ok());
  other.join();
  Deliver();
  EXPECT_EQ(client_->counters().acknowledged_count, 3u);
}

TEST_F(DropOldestTokenTest, WhatWasSentStaysThoughTheConnectionBroke) {
  SendTwoTokens();
  daemon_.RefuseOpening(StreamEnd::kLost, "not yet");
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(3));
  for (int64_t token = 3; token < 7; ++token) {
    EXPECT_TRUE(RecordAt(token, 10).ok());
  }
  daemon_.AcceptOpening();
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(0, 1, 5, 6));
  EXPECT_EQ(client_->counters().dropped_count, 3u);
}

TEST_F(DropOldestTokenTest, RefusedChunkInTheMiddleCountsOnce) {
  OpenWith(OverflowMode::kDropOldestToken, 4);
  daemon_.RefuseNextChunk();
  ASSERT_TRUE(RecordAt(0, 10).ok());
  ASSERT_TRUE(RecordAt(1, 10).ok());
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  ASSERT_TRUE(RecordAt(2, 10).ok());
  ASSERT_TRUE(RecordAt(3, 10).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(2));
  for (int64_t token = 4; token < 8; ++token) {
    EXPECT_TRUE(RecordAt(token, 10).ok());
  }
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(1, 2, 6, 7));
  EXPECT_EQ(client_->counters().dropped_count, 4u);
  EXPECT_EQ(client_->counters().refused_chunk_count, 1u);
}

TEST_F(DropOldestTokenTest, TensorThatWasSentInPartIsTruncated) {
  OpenWith(OverflowMode::kDropOldestToken, 4);
  ASSERT_TRUE(RecordAt(0, 2 * kPartBytes + 1).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(2));
  ASSERT_TRUE(RecordAt(1, kPartBytes).ok());
  EXPECT_TRUE(RecordAt(2, kPartBytes).ok());
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(0, 0, 1, 2));
  EXPECT_EQ(client_->counters().truncated_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(DropOldestTokenTest, TensorThatWaitsWhollyIsDroppedOnce) {
  OpenWith(OverflowMode::kDropOldestToken, 5);
  for (int64_t token = 0; token < 2; ++token) {
    ASSERT_TRUE(RecordAt(token, kPartBytes).ok());
  }
  ASSERT_TRUE(RecordAt(2, kPartBytes + 1).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(2));
  ASSERT_TRUE(RecordAt(3, kPartBytes).ok());
  EXPECT_TRUE(RecordAt(4, kPartBytes).ok());
  Deliver();
  EXPECT_THAT(Tokens(), ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(client_->counters().dropped_count, 1u);
  EXPECT_EQ(client_->counters().truncated_count, 0u);
}

TEST_F(DropOldestTokenTest, TensorThatIsBeingRecordedIsGivenUp) {
  OpenWith(OverflowMode::kDropOldestToken, 4);
  ASSERT_TRUE(RecordAt(0, kPartBytes).ok());
  ASSERT_TRUE(client_->SetToken(1).ok());
  std::atomic<bool> is_over = false;
  std::thread large([&] {
    EXPECT_EQ(Record("large", 50 * kPartBytes).code, MSIT_ERROR_DROPPED);
    is_over = true;
  });
  // The chunk of token 0, and the chunk of the first part.
  ASSERT_TRUE(daemon_.WaitForChunks(2));
  for (int64_t token = 2; !is_over; ++token) {
    EXPECT_TRUE(RecordAt(token, 10).ok());
    std::this_thread::yield();
  }
  large.join();
  Deliver();
  EXPECT_EQ(client_->counters().truncated_count, 1u);
}

TEST_F(DropOldestTokenTest, ThreadsInDifferentTokensAddUp) {
  options_.max_block = milliseconds(1);
  options_.linger = milliseconds(0);
  OpenWith(OverflowMode::kDropOldestToken, 6);
  constexpr int kThreads = 4;
  constexpr int64_t kTokens = 60;
  std::atomic<int> running_count = kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::byte> data(kPartBytes + 1);
      for (int64_t token = 0; token < kTokens; ++token) {
        const int64_t dims[] = {(token + t) % 7 == 0 ? int64_t{kPartBytes} + 1
                                                     : int64_t{5000}};
        TensorView tensor;
        tensor.op = "op";
        tensor.token = token;
        tensor.call = t;
        tensor.io = Io::kOutput;
        tensor.dtype = DType::kUint8;
        tensor.dims = dims;
        tensor.data = data.data();
        const msit_code code = client_->Record(tensor).code;
        EXPECT_TRUE(code == MSIT_OK || code == MSIT_ERROR_DROPPED);
      }
      --running_count;
    });
  }
  // Frees space after every few dropped records, and occasionally breaks the
  // stream.
  uint64_t dropped_before = 0;
  for (int turn = 1; running_count != 0;) {
    const uint64_t dropped = client_->counters().dropped_count;
    if (dropped - dropped_before >= 5) {
      dropped_before = dropped;
      daemon_.CommitAll();
      daemon_.StopAcknowledging();
      if (++turn % 4 == 0) daemon_.Break(StreamEnd::kLost, "gone");
    }
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  Deliver();
  EXPECT_GT(client_->counters().dropped_count, 0u);
  EXPECT_EQ(daemon_.coverage().seen_count, uint64_t{kThreads * kTokens});
  for (const FakeDaemon::Bytes& bytes : daemon_.chunks()) {
    const auto chunk = chunk::Chunk::FromProducer(bytes);
    ASSERT_TRUE(chunk.ok());
    std::set<int64_t> tokens;
    for (const auto& record : chunk->records()) tokens.insert(record.token);
    EXPECT_EQ(tokens.size(), 1u);
  }
}

}  // namespace
}  // namespace msitd::libmsit
