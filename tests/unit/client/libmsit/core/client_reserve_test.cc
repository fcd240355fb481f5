// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/libmsit/core/client.h"
#include "protos/base/limits.h"
#include "protos/capture/capture_policy.h"
#include "protos/compute/digest.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of records whose bytes are written later.
namespace msitd::libmsit {
namespace {

// Time within which a chunk that must not be sent would have arrived.
constexpr milliseconds kShort{50};

std::byte ByteAt(uint64_t at) { return static_cast<std::byte>(at % 251); }

class ClientReserveTest : public ClientTest {
 protected:
  ClientReserveTest() { options_.buffer_bytes = 4 * kSlotBytes; }

  using Reserved = std::unique_ptr<Reservation>;

  Status Reserve(const std::string& op, uint64_t bytes, Reserved* reserved,
                 int64_t token = 0, uint64_t identity = 0) {
    const int64_t dims[] = {static_cast<int64_t>(bytes)};
    TensorView tensor;
    tensor.token = token;
    tensor.op = op;
    tensor.io = Io::kOutput;
    tensor.index = "0";
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.comes_later = true;
    tensor.identity = identity;
    return client_->Reserve(tensor, reserved);
  }

  // Makes a reservation that must not fail.
  Reserved MustReserve(const std::string& op, uint64_t bytes,
                       int64_t token = 0) {
    Reserved reserved;
    const Status status = Reserve(op, bytes, &reserved, token);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_NE(reserved, nullptr);
    return reserved;
  }

  // Writes bytes that depend on their offset.
  static void Fill(const Reservation& reserved) {
    uint64_t at = 0;
    for (const Reservation::ReservedPart& part : reserved.parts) {
      for (std::byte& one : part.bytes) one = ByteAt(at++);
    }
    EXPECT_EQ(at, reserved.tensor_bytes);
  }

  Status FillAndPublish(const Reservation& reserved) {
    Fill(reserved);
    return client_->Publish(reserved, true);
  }

  void SetLevel(capture::Level level) {
    capture::Rule rule;
    rule.level = level;
    capture::Policies policies;
    ASSERT_TRUE(capture::Add({1, 0, {rule}}, policies));
    daemon_.SetPolicy(capture::Encode(policies));
  }

  // Returns the ops that have arrived, one for each part.
  std::vector<std::string> Ops() {
    std::vector<std::string> ops;
    for (const Arrived& one : Arrivals()) ops.push_back(one.key.op);
    return ops;
  }

  // Expects that recorded = acknowledged + pending + dropped after they were
  // recorded.
  void ExpectAllCounted(uint64_t acknowledged, uint64_t dropped) {
    const ClientCounters counters = client_->counters();
    EXPECT_EQ(counters.recorded_count, acknowledged + dropped);
    EXPECT_EQ(counters.acknowledged_count, acknowledged);
    EXPECT_EQ(counters.dropped_count, dropped);
    EXPECT_EQ(counters.truncated_count, 0u);
  }
};

TEST_F(ClientReserveTest, NothingArrivesBeforeItIsPublished) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("before", 3).ok());
  const Reserved reserved = MustReserve("op", 1000);
  ASSERT_TRUE(Record("behind", 5).ok());
  EXPECT_EQ(client_->Flush(kShort).code, MSIT_ERROR_TIMEOUT);
  EXPECT_EQ(daemon_.arrival_count(), 0u);
  ASSERT_TRUE(FillAndPublish(*reserved).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  EXPECT_EQ(Ops(), (std::vector<std::string>{"before", "op", "behind"}));
  ASSERT_EQ(arrived[1].bytes.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(arrived[1].bytes[i], ByteAt(i));
  ExpectAllCounted(3, 0);
}

TEST_F(ClientReserveTest, PartsAreFilledByAnyThread) {
  ASSERT_TRUE(Open().ok());
  constexpr uint64_t kBytes = kPartBytes + 5;
  const Reserved reserved = MustReserve("op", kBytes);
  ASSERT_EQ(reserved->parts.size(), 2u);
  EXPECT_EQ(client_->Flush(kShort).code, MSIT_ERROR_TIMEOUT);
  EXPECT_EQ(daemon_.arrival_count(), 0u);
  std::thread([&] { EXPECT_TRUE(FillAndPublish(*reserved).ok()); }).join();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  uint64_t at = 0;
  for (const Arrived& part : Arrivals()) {
    EXPECT_EQ(part.part_offset, at);
    EXPECT_EQ(part.tensor_bytes, kBytes);
    for (const std::byte one : part.bytes) ASSERT_EQ(one, ByteAt(at++));
  }
  EXPECT_EQ(at, kBytes);
  ExpectAllCounted(1, 0);
  EXPECT_EQ(client_->counters().acknowledged_bytes, kBytes);
}

TEST_F(ClientReserveTest, WhatIsGivenUpIsShownNowhere) {
  ASSERT_TRUE(Open().ok());
  for (const uint64_t bytes : {uint64_t{1000}, kPartBytes, kPartBytes + 5}) {
    ASSERT_TRUE(Record("before", 3).ok());
    const Reserved reserved = MustReserve("op", bytes);
    ASSERT_TRUE(Record("behind", 5).ok());
    Fill(*reserved);
    ASSERT_TRUE(client_->Publish(*reserved, false).ok());
    for (const Reservation::ReservedPart& part : reserved->parts) {
      EXPECT_EQ(std::ranges::count(part.place.payload, std::byte{0}),
                static_cast<ptrdiff_t>(part.place.payload.size()));
    }
    ASSERT_TRUE(client_->Flush(kLong).ok());
  }
  EXPECT_EQ(Ops(), (std::vector<std::string>{"before", "behind", "before",
                                             "behind", "before", "behind"}));
  ExpectAllCounted(6, 3);
}

TEST_F(ClientReserveTest, ChunkWithNothingLeftIsNotSent) {
  ASSERT_TRUE(Open().ok());
  // There are more rounds than slots, and each slot is returned.
  for (int i = 0; i < 10; ++i) {
    const Reserved reserved = MustReserve("op", 2 * kPartBytes);
    ASSERT_TRUE(client_->Publish(*reserved, false).ok());
  }
  // The chunk is sealed while the reservation is open.
  const Reserved sealed = MustReserve("op", 10);
  client_->Mark();
  ASSERT_TRUE(client_->Publish(*sealed, false).ok());
  // The chunk is sealed after the reservation has ended.
  const Reserved open = MustReserve("op", 10);
  ASSERT_TRUE(client_->Publish(*open, false).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(daemon_.arrival_count(), 0u);
  ASSERT_TRUE(Record("op", 3).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(daemon_.arrival_count(), 1u);
  ExpectAllCounted(1, 12);
}

TEST_F(ClientReserveTest, OpenChunkWithNothingLeftIsRoomForOthers) {
  options_.buffer_bytes = 2 * kSlotBytes;
  options_.max_block = seconds(0);
  capture::Policies policies;
  ASSERT_TRUE(capture::Add({1,
                            0,
                            {{.level = capture::Level::kSummary,
                              .tensors = {.op_patterns = {"summary"}}},
                             {.level = capture::Level::kFull, .tensors = {}}}},
                           policies));
  daemon_.SetPolicy(capture::Encode(policies));
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("full", kPartBytes).ok());
  // The summary is in its own chunk.
  const Reserved reserved = MustReserve("summary", 10);
  EXPECT_EQ(Record("full", kPartBytes).code, MSIT_ERROR_DROPPED);
  ASSERT_TRUE(client_->Publish(*reserved, false).ok());
  EXPECT_TRUE(Record("full", kPartBytes).ok());
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
}

TEST_F(ClientReserveTest, NothingIsReservedWithoutBytesToCopy) {
  SetLevel(capture::Level::kOff);
  ASSERT_TRUE(Open().ok());
  Reserved reserved;
  ASSERT_TRUE(Reserve("op", 10, &reserved).ok());
  EXPECT_EQ(reserved, nullptr);
  EXPECT_EQ(client_->counters().filtered_count, 1u);
  EXPECT_EQ(client_->counters().recorded_count, 0u);
}

TEST_F(ClientReserveTest, TensorWithoutBytesIsRecordedAtOnce) {
  ASSERT_TRUE(Open().ok());
  Reserved reserved;
  ASSERT_TRUE(Reserve("op", 0, &reserved).ok());
  EXPECT_EQ(reserved, nullptr);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Ops(), std::vector<std::string>{"op"});
}

TEST_F(ClientReserveTest, OnlyBytesOfTensorsComeLater) {
  ASSERT_TRUE(Open().ok());
  TensorView text;
  text.op = "op";
  text.io = Io::kInput;
  text.kind = RecordKind::kText;
  text.value = "text";
  text.comes_later = true;
  Reserved reserved;
  EXPECT_EQ(client_->Reserve(text, &reserved).code,
            MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(reserved, nullptr);
  EXPECT_EQ(client_->counters().invalid_count, 1u);
}

TEST_F(ClientReserveTest, AliasComesBehindWhatIsReserved) {
  ASSERT_TRUE(Open().ok());
  Reserved original;
  ASSERT_TRUE(Reserve("a", 10, &original, 0, 7).ok());
  ASSERT_NE(original, nullptr);
  Reserved alias;
  ASSERT_TRUE(Reserve("b", 10, &alias, 0, 7).ok());
  EXPECT_EQ(alias, nullptr);
  ASSERT_TRUE(FillAndPublish(*original).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[1].alias_of, "a|0|output|0");
}

TEST_F(ClientReserveTest, NothingBecomesAnAliasOfWhatWasGivenUp) {
  ASSERT_TRUE(Open().ok());
  Reserved original;
  ASSERT_TRUE(Reserve("a", 10, &original, 0, 7).ok());
  ASSERT_TRUE(client_->Publish(*original, false).ok());
  Reserved again;
  ASSERT_TRUE(Reserve("b", 10, &again, 0, 7).ok());
  ASSERT_NE(again, nullptr);
  ASSERT_TRUE(FillAndPublish(*again).ok());
}

TEST_F(ClientReserveTest, CallsAreNumberedInTheOrderOfReservations) {
  ASSERT_TRUE(Open().ok());
  const Reserved first = MustReserve("op", 10);
  const Reserved second = MustReserve("op", 20);
  ASSERT_TRUE(FillAndPublish(*second).ok());
  ASSERT_TRUE(FillAndPublish(*first).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(arrived[call].key.call, call);
    EXPECT_EQ(arrived[call].bytes.size(), call == 0 ? 10u : 20u);
  }
}

TEST_F(ClientReserveTest, SummaryIsMadeOfWhatComes) {
  options_.buffer_bytes = 16 * kSlotBytes;
  SetLevel(capture::Level::kSummary);
  ASSERT_TRUE(Open().ok());
  const uint64_t sizes[] = {10, 5000, 70000, kPartBytes + 5000, 3 * kPartBytes};
  size_t digest_count = 0;
  // Every few digests, the bytes are sent as well.
  for (int round = 0; round < 40; ++round) {
    for (const uint64_t size : sizes) {
      const Reserved reserved = MustReserve("op", size);
      ASSERT_TRUE(FillAndPublish(*reserved).ok());
    }
    ASSERT_TRUE(client_->Flush(kLong).ok());
  }
  size_t with_bytes = 0;
  for (const Arrived& part : Arrivals()) {
    std::vector<std::byte> bytes(part.part_bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = ByteAt(part.part_offset + i);
    }
    if (part.digest) {
      ++digest_count;
      with_bytes += part.bytes.empty() ? 0 : 1;
      EXPECT_TRUE(HasEqualBits(*part.digest,
                               compute::DigestPart(bytes, DType::kUint8)));
    } else {
      EXPECT_LE(bytes.size(), chunk::kDigestSpan);
    }
    EXPECT_TRUE(part.bytes.empty() || part.bytes == bytes);
  }
  EXPECT_EQ(digest_count, 40u * 7);
  EXPECT_GT(with_bytes, 0u);
  EXPECT_LT(with_bytes, digest_count / 20);
  ASSERT_EQ(client_->Memory().size(), 1u);
  EXPECT_EQ(client_->Memory()[0].size(), Scratch::kBytes);
  ExpectAllCounted(40 * 5, 0);
}

TEST_F(ClientReserveTest, SummariesWaitForMemoryForTheirBytes) {
  options_.buffer_bytes = 32 * kSlotBytes;
  SetLevel(capture::Level::kSummary);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10'000).ok());  // This record includes its bytes.
  const Reserved first = MustReserve("op", Scratch::kBytes);
  std::atomic<bool> is_published = false;
  std::thread publisher([&] {
    std::this_thread::sleep_for(kShort);
    is_published = true;
    EXPECT_TRUE(FillAndPublish(*first).ok());
  });
  const Reserved second = MustReserve("op", Scratch::kBytes);
  EXPECT_TRUE(is_published);
  publisher.join();
  ASSERT_TRUE(client_->Publish(*second, false).ok());
  // The withdrawn reservation has released its memory.
  const Reserved third = MustReserve("op", Scratch::kBytes);
  ASSERT_TRUE(FillAndPublish(*third).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ExpectAllCounted(3, 1);
}

TEST_F(ClientReserveTest, TooLargeATensorCountsNowhere) {
  options_.buffer_bytes = 4 * kSlotBytes;
  ASSERT_TRUE(Open().ok());
  Reserved reserved;
  EXPECT_EQ(Reserve("op", 2 * kPartBytes + 1, &reserved).code,
            MSIT_ERROR_TOO_LARGE);
  EXPECT_EQ(reserved, nullptr);
  ASSERT_TRUE(Record("op", 2 * kPartBytes + 1).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  // The failed reservation did not use up a call number.
  EXPECT_EQ(Arrivals()[0].key.call, 0);
  ExpectAllCounted(1, 0);
}

TEST_F(ClientReserveTest, ReservationWithoutRoomIsDropped) {
  options_.max_block = kShort;
  ASSERT_TRUE(Open().ok());
  std::vector<Reserved> reserved;
  for (int i = 0; i < 4; ++i) reserved.push_back(MustReserve("op", kPartBytes));
  Reserved none;
  EXPECT_EQ(Reserve("op", 10, &none).code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(Reserve("op", 2 * kPartBytes, &none).code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(none, nullptr);
  for (const Reserved& one : reserved) ASSERT_TRUE(FillAndPublish(*one).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
  EXPECT_EQ(client_->counters().dropped_count, 2u);
}

// If each reservation held one slot and waited for another, both would wait
// forever.
TEST_F(ClientReserveTest, LargeReservationsDoNotWaitForEachOther) {
  ASSERT_TRUE(Open().ok());
  constexpr int kThreads = 3;
  constexpr int kRounds = 20;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const Reserved reserved = MustReserve("op", 2 * kPartBytes);
        std::this_thread::yield();
        EXPECT_TRUE(client_->Publish(*reserved, round % 4 != 0).ok());
      }
    });
  }
  for (std::thread& one : threads) one.join();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ExpectAllCounted(kThreads * kRounds * 3 / 4, kThreads * kRounds / 4);
}

TEST_F(ClientReserveTest, LargeReservationMakesOpenChunksGo) {
  options_.linger = kLong;
  ASSERT_TRUE(Open().ok());
  std::vector<Reserved> reserved;
  for (int i = 0; i < 2; ++i) reserved.push_back(MustReserve("op", kPartBytes));
  for (const Reserved& one : reserved) ASSERT_TRUE(FillAndPublish(*one).ok());
  // The last part is in an open chunk.
  const Reserved first = MustReserve("op", 2 * kPartBytes);
  std::thread publisher([&] {
    std::this_thread::sleep_for(kShort);
    EXPECT_TRUE(FillAndPublish(*first).ok());
  });
  const Reserved second = MustReserve("op", 2 * kPartBytes);
  publisher.join();
  ASSERT_TRUE(FillAndPublish(*second).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ExpectAllCounted(4, 0);
}

TEST_F(ClientReserveTest, CloseWithdrawsWhatIsOpenAndDeliversTheRest) {
  constexpr milliseconds kCloseTime{4000};
  for (const bool keeps_chunks : {false, true}) {
    if (keeps_chunks) daemon_.KeepChunks();
    daemon_.Wipe();
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(Record("sent", 10).ok());
    ASSERT_TRUE(client_->Flush(kLong).ok());
    const Reserved small = MustReserve("op", 1000);
    ASSERT_TRUE(Record("beside", 10).ok());
    const Reserved large = MustReserve("op", kPartBytes + 5);
    ASSERT_TRUE(Record("behind", 10).ok());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(client_->Close(kCloseTime).code, MSIT_ERROR_TIMEOUT);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
    ExpectAllCounted(3, 2);
    // A device may still write to the memory.
    Fill(*small);
    Fill(*large);
    EXPECT_EQ(client_->Publish(*small, true).code, MSIT_ERROR_CLOSED);
    EXPECT_EQ(client_->Publish(*large, false).code, MSIT_ERROR_CLOSED);
    ExpectAllCounted(3, 2);
    EXPECT_EQ(Ops(), (std::vector<std::string>{"sent", "beside", "behind"}));
    client_.reset();
  }
}

TEST_F(ClientReserveTest, CloseWithoutTimeDropsWhatIsOpen) {
  ASSERT_TRUE(Open().ok());
  const Reserved small = MustReserve("op", 1000);
  EXPECT_EQ(client_->Close(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  ExpectAllCounted(0, 1);
  Fill(*small);
  client_.reset();
}

TEST_F(ClientReserveTest, AliasesShareTheFateOfAWithdrawnReservation) {
  for (const bool is_closed : {false, true}) {
    daemon_.Wipe();
    ASSERT_TRUE(Open().ok());
    Reserved original;
    ASSERT_TRUE(Reserve("a", 10, &original, 0, 7).ok());
    Reserved alias;
    ASSERT_TRUE(Reserve("b", 10, &alias, 0, 7).ok());
    ASSERT_EQ(alias, nullptr);
    ASSERT_TRUE(Record("other", 10).ok());
    if (is_closed) {
      EXPECT_EQ(client_->Close(milliseconds(4000)).code, MSIT_ERROR_TIMEOUT);
    } else {
      ASSERT_TRUE(client_->Publish(*original, false).ok());
      EXPECT_TRUE(client_->Close(kLong).ok());
    }
    ExpectAllCounted(1, 2);
    EXPECT_EQ(Ops(), std::vector<std::string>{"other"});
    client_.reset();
  }
}

TEST_F(ClientReserveTest, CloseWaitsForWhatIsPublishedInTime) {
  ASSERT_TRUE(Open().ok());
  const Reserved reserved = MustReserve("op", kPartBytes + 5);
  std::thread publisher([&] {
    std::this_thread::sleep_for(kShort);
    EXPECT_TRUE(FillAndPublish(*reserved).ok());
  });
  EXPECT_TRUE(client_->Close(kLong).ok());
  publisher.join();
  ExpectAllCounted(1, 0);
  Reserved late;
  EXPECT_EQ(Reserve("op", 10, &late).code, MSIT_ERROR_CLOSED);
}

TEST_F(ClientReserveTest, OldTokenThatIsReservedIsNotDropped) {
  options_.overflow = OverflowMode::kDropOldestToken;
  options_.max_block = kShort;
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  std::vector<Reserved> reserved;
  for (int token = 0; token < 4; ++token) {
    reserved.push_back(MustReserve("op", kPartBytes, token));
  }
  Reserved none;
  EXPECT_EQ(Reserve("op", 10, &none, 9).code, MSIT_ERROR_DROPPED);
  // A reservation that is complete and not sent may be dropped.
  ASSERT_TRUE(FillAndPublish(*reserved[2]).ok());
  const Reserved newest = MustReserve("op", 10, 9);
  EXPECT_EQ(client_->counters().dropped_count, 2u);
  for (const int i : {0, 1, 3}) ASSERT_TRUE(FillAndPublish(*reserved[i]).ok());
  ASSERT_TRUE(FillAndPublish(*newest).ok());
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  std::vector<int64_t> tokens;
  for (const Arrived& one : Arrivals()) tokens.push_back(one.key.token);
  EXPECT_EQ(tokens, (std::vector<int64_t>{0, 1, 3, 9}));
}

TEST_F(ClientReserveTest, ReservationsAreDegradedWhileMemoryIsShort) {
  options_.overflow = OverflowMode::kDegrade;
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Record("fill", kPartBytes).ok());
  const Reserved kept = MustReserve("degraded", 70'000);
  const Reserved given_up = MustReserve("given up", 70'000);
  ASSERT_TRUE(FillAndPublish(*kept).ok());
  ASSERT_TRUE(client_->Publish(*given_up, false).ok());
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().degraded_count, 1u);
  EXPECT_EQ(Arrivals().back().kept, chunk::Kept::kNothing);
  ExpectAllCounted(4, 1);
}

TEST_F(ClientReserveTest, WhatIsReservedOutlivesAConnection) {
  ASSERT_TRUE(Open().ok());
  const Reserved reserved = MustReserve("op", kPartBytes + 5);
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  ASSERT_TRUE(FillAndPublish(*reserved).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Ops().size(), 2u);
  ExpectAllCounted(1, 0);
}

TEST_F(ClientReserveTest, WhatIsReservedCountsOnceWhenTheStreamIsRefused) {
  ASSERT_TRUE(Open().ok());
  const Reserved filled = MustReserve("op", 10);
  const Reserved given_up = MustReserve("op", kPartBytes + 5);
  daemon_.Break(StreamEnd::kRefused, "sealed");
  EXPECT_EQ(client_->Flush(kShort).code, MSIT_ERROR_REFUSED);
  ASSERT_TRUE(FillAndPublish(*filled).ok());
  ASSERT_TRUE(client_->Publish(*given_up, false).ok());
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_REFUSED);
  ExpectAllCounted(0, 2);
  Reserved late;
  EXPECT_EQ(Reserve("op", 10, &late).code, MSIT_ERROR_DROPPED);
}

TEST_F(ClientReserveTest, ForkedChildDoesNotPublish) {
  ASSERT_TRUE(Open().ok());
  const Reserved reserved = MustReserve("op", 10);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(client_->Publish(*reserved, true).code == MSIT_ERROR_FORKED &&
                    client_->Memory().empty()
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(FillAndPublish(*reserved).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ExpectAllCounted(1, 0);
}

TEST(ScratchTest, MemoryIsOneAgainWhenAllIsGivenBack) {
  Scratch scratch;
  EXPECT_TRUE(scratch.memory().empty());
  std::vector<std::span<std::byte>> taken;
  constexpr uint64_t kQuarter = Scratch::kBytes / 4;
  for (int i = 0; i < 4; ++i) taken.push_back(scratch.Take(kQuarter - i));
  for (const auto one : taken) ASSERT_FALSE(one.empty());
  EXPECT_TRUE(scratch.Take(1).empty());
  for (const int i : {1, 3, 0, 2}) {
    scratch.Give(taken[i]);
    EXPECT_EQ(scratch.Take(2 * kQuarter).empty(), i != 0 && i != 2)
        << "after " << i;
    if (i == 0) scratch.Give(scratch.memory().first(2 * kQuarter));
    if (i == 2) scratch.Give(scratch.memory().first(2 * kQuarter));
  }
  EXPECT_EQ(scratch.Take(Scratch::kBytes).size(), Scratch::kBytes);
}

}  // namespace
}  // namespace msitd::libmsit
