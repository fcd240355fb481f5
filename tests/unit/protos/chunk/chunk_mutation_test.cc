// SPDX-License-Identifier: Apache-2.0
// Corrupts complete chunks at random. Intended to run under AddressSanitizer:
// accepted chunks are read to their last byte, so a missing check of an offset
// causes a crash.
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "tests/golden/chunk/golden_chunks.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

constexpr int kRounds = 30000;

// Returns the chunk to corrupt. It requests samples in every other round, and
// contains records of all kinds in two of four rounds.
std::vector<std::byte> GoodChunk(int round) {
  static const std::vector<std::byte> kPlain = SmallChunk();
  static const std::vector<std::byte> kEveryKind = [] {
    for (GoldenChunk& golden : MakeGoldenChunks()) {
      if (golden.name == "v2/every_kind.chunk") return golden.bytes;
    }
    return std::vector<std::byte>();
  }();
  std::vector<std::byte> bytes = round % 4 < 2 ? kPlain : kEveryKind;
  ChunkHeader header = HeaderOf(bytes);
  header.flags = round % 2 == 0 ? 0 : kSampleFlag;
  PutHeader(bytes, header);
  return bytes;
}

uint64_t WalkFrame(const Chunk& chunk) {
  FramePayload payload(chunk.header());
  for (const RecordDescriptor& record : chunk.records()) payload.Next(record);
  EXPECT_LE(payload.end(), kChunkPayloadBytesMax);
  EXPECT_LE(payload.end(),
            chunk.kept() == Kept::kNothing ? 0 : chunk.stored_payload_bytes());
  return payload.end();
}

uint64_t Walk(const Chunk& chunk, bool with_payload) {
  uint64_t sum = WalkFrame(chunk);
  const auto add = [&sum](std::string_view text) {
    for (const char c : text) sum += static_cast<unsigned char>(c);
  };
  add(chunk.run());
  for (const RecordDescriptor& record : chunk.records()) {
    add(chunk.Text(record.op));
    add(chunk.Text(record.index));
    add(chunk.Text(record.device));
    const RecordExtra extra = chunk.ExtraOf(record);
    add(chunk.Text(extra.value));
    add(chunk.Text(extra.stack));
    add(chunk.Text(extra.alias_op));
    add(chunk.Text(extra.alias_index));
    for (const int64_t dim : chunk.Dims(record)) {
      sum += static_cast<uint64_t>(dim);
    }
    if (!with_payload) continue;
    for (const std::byte b : chunk.PayloadOf(record)) {
      sum += static_cast<uint64_t>(b);
    }
  }
  return sum;
}

// Overwrites 1 to 4 places near the beginning of the chunk, which contains all
// its structure, with random, extreme or slightly changed values.
void Spoil(std::mt19937_64& random, std::vector<std::byte>& bytes,
           uint32_t head_bytes) {
  for (uint64_t n = 1 + random() % 4; n > 0; --n) {
    const uint64_t at = random() % head_bytes;
    switch (random() % 4) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1 << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random());
        break;
      case 2: {
        const auto word = static_cast<uint32_t>(random() % (2 * head_bytes));
        std::memcpy(bytes.data() + at / 4 * 4, &word, sizeof(word));
        break;
      }
      default: {
        const uint64_t word = random() % 2 == 0 ? ~uint64_t{0} : 0;
        std::memcpy(bytes.data() + at / 8 * 8, &word, sizeof(word));
        break;
      }
    }
  }
}

TEST(ChunkMutationTest, ProducerBytesAreRefusedWithAReasonOrSafeToRead) {
  std::mt19937_64 random(20240117);
  AlignedBuffer samples;
  int accepted = 0;
  int refused = 0;
  uint64_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::byte> bytes = GoodChunk(round);
    Spoil(random, bytes, HeaderOf(bytes).head_bytes);
    auto chunk = Chunk::FromProducer(bytes);
    if (chunk.ok()) {
      ++accepted;
      sum += Walk(*chunk, true);
      if (chunk->kept() == Kept::kSample) {
        sum += chunk->GatherSamples(samples).size();
      }
    } else {
      ++refused;
      ASSERT_EQ(chunk.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_FALSE(Reason(chunk.status()).empty()) << chunk.status();
    }
  }
  EXPECT_GT(accepted, kRounds / 20);
  EXPECT_GT(refused, kRounds / 20);
  EXPECT_NE(sum, 0u);
}

TEST(ChunkMutationTest, FrameBytesWithAMatchingChecksumAreStillChecked) {
  std::mt19937_64 random(20240118);
  int refused = 0;
  uint64_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::byte> good = GoodChunk(round);
    auto chunk = Chunk::FromProducer(good);
    ASSERT_TRUE(chunk.ok());
    std::vector<std::byte> head(chunk->head().begin(), chunk->head().end());
    Spoil(random, head, HeaderOf(head).head_bytes);
    // A malicious producer can compute the checksum. It can be stamped only if
    // the sizes in the head are within its memory.
    const ChunkHeader header = HeaderOf(head);
    if (header.head_bytes >= sizeof(ChunkHeader) &&
        header.head_bytes <= head.size()) {
      std::memcpy(const_cast<std::byte*>(chunk->head().data()), head.data(),
                  head.size());
      chunk->StampChecksum();
      head.assign(chunk->head().begin(), chunk->head().end());
    }
    AlignedBuffer copy(head.size());
    std::memcpy(copy.data(), head.data(), head.size());
    const auto frame = Chunk::FromFrame(std::move(copy));
    if (frame.ok()) {
      sum += Walk(*frame, false);
    } else {
      ++refused;
      ASSERT_EQ(frame.status().code(), absl::StatusCode::kDataLoss);
      ASSERT_EQ(Reason(frame.status()), "FRAME_CORRUPT") << frame.status();
    }
  }
  EXPECT_GT(refused, kRounds / 20);
  EXPECT_NE(sum, 0u);
}

TEST(ChunkMutationTest, RandomBytesAreNoChunk) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes(random() % 9000);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    EXPECT_FALSE(Chunk::FromProducer(bytes).ok());
  }
}

}  // namespace
}  // namespace msitd::chunk
