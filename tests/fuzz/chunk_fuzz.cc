// SPDX-License-Identifier: Apache-2.0
// Chunks from producers, and heads of frames.
#include "protos/chunk/chunk.h"
#include "tests/fuzz/chunk_use.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/golden/chunk/golden_chunks.h"

namespace msitd::fuzz {
namespace {

AlignedBuffer HeadCopy(std::span<const std::byte> head) {
  AlignedBuffer copy(head.size());
  std::memcpy(copy.data(), head.data(), head.size());
  return copy;
}

void TryFrame(std::span<const std::byte> bytes) {
  const absl::StatusOr<uint64_t> span = chunk::FrameHeadSpan(bytes);
  if (!span.ok() || *span > bytes.size()) return;
  const absl::StatusOr<chunk::Chunk> frame =
      chunk::Chunk::FromFrame(HeadCopy(bytes.first(*span)));
  if (frame.ok()) UseHead(*frame);
}

void TryChunk(std::span<const std::byte> bytes) {
  absl::StatusOr<chunk::Chunk> chunk = chunk::Chunk::FromProducer(bytes);
  if (!chunk.ok()) return;
  MSITD_CHECK(chunk->head().size() + chunk->payload().size() == bytes.size());
  MSITD_CHECK(chunk->frame_bytes() <= bytes.size());
  UseHead(*chunk);
  UsePayload(*chunk);
  if (chunk->kept() == chunk::Kept::kSample) {
    AlignedBuffer samples;
    MSITD_CHECK(chunk->head().size() + chunk->GatherSamples(samples).size() ==
                chunk->frame_bytes());
  }
  // A chunk that is accepted can be read back after it is stored.
  chunk->StampChecksum();
  const absl::StatusOr<uint64_t> span = chunk::FrameHeadSpan(chunk->head());
  MSITD_CHECK(span.ok() && *span == chunk->head().size());
  const absl::StatusOr<chunk::Chunk> frame =
      chunk::Chunk::FromFrame(HeadCopy(chunk->head()));
  MSITD_CHECK(frame.ok());
  UseHead(*frame);
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const chunk::GoldenChunk& golden : chunk::MakeGoldenChunks()) {
    seeds.emplace_back(reinterpret_cast<const char*>(golden.bytes.data()),
                       golden.bytes.size());
  }
  return seeds;
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  msitd::fuzz::TryFrame(bytes);
  msitd::fuzz::TryChunk(bytes);
  return 0;
}
