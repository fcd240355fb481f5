// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protos/chunk/chunk_builder.h"
#include "tests/support/producer.h"
#include "tests/unit/daemon/shm/raw_producer.h"
#include "tests/unit/daemon/shm/server_fixture.h"

// Tests of chunks that a producer had begun when it died.
namespace msitd::shm {
namespace {

constexpr uint64_t kStream = 0x77;

class DraftTest : public ServerTest {
 protected:
  DraftTest() { Start(); }

  SessionHello Hello() const {
    SessionHello hello = RawProducer::Hello("run", 1, kStream);
    hello.arena_bytes = uint64_t{32} << 20;
    return hello;
  }

  // Begins a chunk of `count` records in a piece of the arena.
  static chunk::Draft Begin(RawProducer& producer, uint64_t piece,
                            uint64_t number, int count) {
    const std::span<std::byte> memory = producer.Piece(piece);
    chunk::ChunkBuilder builder(memory);
    builder.Start("run", 1, kStream, 0);
    builder.StartDraft(number, 1);
    chunk::Draft draft(memory);
    for (int i = 0; i < count; ++i) {
      const std::string op =
          "op." + std::to_string(number) + '.' + std::to_string(i);
      const int64_t dims[] = {8};
      const auto place = builder.Add({.sequence = uint64_t(i),
                                      .device = "cpu:0",
                                      .op = op,
                                      .io = Io::kOutput,
                                      .index = "0",
                                      .dtype = DType::kUint8,
                                      .dims = dims,
                                      .tensor_bytes = 8,
                                      .part_bytes = 8});
      std::fill(place.begin(), place.end(), std::byte(i));
      draft.SetWritten(static_cast<uint32_t>(i));
    }
    return draft;
  }

  // Waits until the stream has ended and the rank is free for the next one.
  void AwaitEnd() {
    RawProducer next(path());
    while (!next.Open(RawProducer::Hello("run", 1, kStream + 1))) {
      next = RawProducer(path());
    }
  }

  testing::Producer chunks_{"run", 1, kStream};
};

TEST_F(DraftTest, OfADeadProducerAreStoredBehindWhatItPublished) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.KeepDrafts(true);
  // Piece 0 contains the two published chunks.
  producer.Publish(chunks_.Chunk(0), 0);
  producer.Publish(chunks_.Chunk(1), 1);
  Begin(producer, 2, /*number=*/8, 5);
  Begin(producer, 3, /*number=*/7, 4);
  producer.Close();
  AwaitEnd();
  EXPECT_EQ(TensorCount("run"), 2u + 5 + 4);
}

TEST_F(DraftTest, ThatWerePublishedAreNotTakenTwice) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.KeepDrafts(true);
  producer.Publish(chunks_.Chunk(0), 0);
  ASSERT_TRUE(producer.AwaitCommitted(1));
  Begin(producer, 1, 7, 4).SetSent(0);
  Begin(producer, 2, 8, 5).SetSent(1);
  producer.Close();
  AwaitEnd();
  EXPECT_EQ(TensorCount("run"), 1u + 5);
}

TEST_F(DraftTest, OfAProducerThatGoesOnAreLeft) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.KeepDrafts(true);
  Begin(producer, 1, 7, 4);
  producer.KeepDrafts(false);
  producer.Close();
  RawProducer again(path());
  ASSERT_TRUE(again.Open(Hello(), &producer));
  EXPECT_EQ(again.committed_at_open(), 0u);
  // This producer does not support drafts, like producers of older versions.
  again.Close();
  AwaitEnd();
  EXPECT_EQ(TensorCount("run"), 0u);
}

TEST_F(DraftTest, OfAProducerThatIsCutOffAreLeft) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.KeepDrafts(true);
  Begin(producer, 1, 7, 4);
  // The producer reads nothing, so eventually a policy cannot be sent.
  bool is_cut_off = false;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int i = 0; !is_cut_off; ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_TRUE(pipeline_->runs().SetCapturePolicy("run", {}, i).ok());
    pollfd event{producer.socket(), POLLRDHUP, 0};
    is_cut_off = ::poll(&event, 1, 1) == 1;
  }
  AwaitEnd();
  EXPECT_EQ(TensorCount("run"), 0u);
}

TEST_F(DraftTest, LiesCostTheirOwnChunkOnly) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.KeepDrafts(true);
  Begin(producer, 1, 7, 4);
  Begin(producer, 2, 8, 5);
  Begin(producer, 3, 9, 6);
  reinterpret_cast<chunk::DraftHeader*>(producer.Piece(2).data())
      ->record_count = UINT32_MAX;
  producer.Close();
  AwaitEnd();
  EXPECT_EQ(TensorCount("run"), 4u + 6);
}

}  // namespace
}  // namespace msitd::shm
