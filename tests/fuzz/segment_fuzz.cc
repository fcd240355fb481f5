// SPDX-License-Identifier: Apache-2.0
// Segment files: their header, the walk over their frames, and the check of
// their payloads.
//
// The first byte of an input is 1 if the checksums of heads are corrected, so
// that mutations get past this check. The next two bytes are the known end and
// the begin of durable data in pages, or 0 for none. The rest is the file.
#include "storage/segment/segment_walk.h"
#include "tests/fuzz/chunk_use.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/memory_file.h"
#include "tests/support/test_chunk.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace msitd::storage {
namespace {

using chunk::ChunkHeader;
using msitd::testing::MakeTensor;
using msitd::testing::MemoryFile;
using msitd::testing::TestChunks;

constexpr uint64_t kStore = 99;
constexpr SegmentId kSegment{1};
constexpr int kSeedFrames = 3;

// Computes the checksum as specified in docs/format/chunk.md.
uint64_t HeadChecksum(std::span<const std::byte> head) {
  ChunkHeader header;
  std::memcpy(&header, head.data(), sizeof(header));
  header.head_checksum = 0;
  const uint64_t seed = XXH3_64bits(&header, sizeof(header));
  return XXH3_64bits_withSeed(head.data() + sizeof(header),
                              head.size() - sizeof(header), seed);
}

void RestampHeads(std::span<std::byte> file) {
  for (uint64_t at = 0; at + sizeof(ChunkHeader) <= file.size();
       at += kChunkAlignment) {
    ChunkHeader header;
    std::memcpy(&header, file.data() + at, sizeof(header));
    if (header.magic != chunk::kMagic ||
        header.head_bytes < sizeof(ChunkHeader) ||
        header.head_bytes > file.size() - at) {
      continue;
    }
    header.head_checksum = HeadChecksum(file.subspan(at, header.head_bytes));
    std::memcpy(file.data() + at, &header, sizeof(header));
  }
}

uint64_t Use(MemoryFile& file, const FoundFrame& frame, uint64_t begin) {
  MSITD_CHECK(frame.offset >= begin);
  MSITD_CHECK(frame.end() > frame.offset);
  MSITD_CHECK(!frame.is_complete || frame.end() <= file.bytes.size());
  fuzz::UseHead(frame.chunk);
  if (frame.is_complete) {
    AlignedBuffer buffer;
    VerifyPayload(file, frame, buffer).IgnoreError();
  }
  return frame.end();
}

void Walk(MemoryFile& file, std::optional<uint64_t> known_end,
          uint64_t durable_min) {
  const SegmentScanner::ScanRange place{.store_id = kStore,
                                        .segment = kSegment,
                                        .begin_bytes = kSegmentHeaderBytes,
                                        .end_bytes = file.bytes.size(),
                                        .frame_sequence_min = 0};
  absl::StatusOr<SegmentWalk> walk =
      SegmentWalk::Begin(file, place, known_end, durable_min);
  if (!walk.ok()) return;
  // There are at most one frame and one gap for each page.
  const uint64_t steps_max = 2 * (file.bytes.size() / kChunkAlignment + 2);
  uint64_t end = 0;
  for (uint64_t i = 0;; ++i) {
    MSITD_CHECK(i < steps_max);
    const absl::StatusOr<SegmentWalk::Step> step = walk->Next();
    MSITD_CHECK(step.ok());
    if (step->kind == SegmentWalk::Step::Kind::kEnd ||
        step->kind == SegmentWalk::Step::Kind::kTail) {
      return;
    }
    if (step->frame.has_value()) end = Use(file, *step->frame, end);
  }
}

std::vector<std::string> SeedList() {
  SegmentHeader header;
  header.store_id = kStore;
  header.segment_id = ToNumber(kSegment);
  std::string file(kSegmentHeaderBytes, '\0');
  EncodeSegmentHeader(
      header, std::as_writable_bytes(std::span(file.data(), file.size())));
  for (int i = 0; i < kSeedFrames; ++i) {
    TestChunks chunks(1, i, {MakeTensor("r", i, "op", 1500, i + 1)});
    chunk::Chunk& chunk = chunks.span()[0];
    chunk.header().run_id = 1;
    chunk.header().store_id = kStore;
    chunk.header().segment_id = ToNumber(kSegment);
    chunk.header().frame_offset = file.size();
    chunk.header().frame_sequence = i + 1;
    chunk.header().durable_bytes = i == 0 ? 0 : file.size();
    AlignedBuffer samples;
    std::span<const std::byte> payload = chunk.payload();
    if (i == 1) {
      chunk.header().flags = chunk::kSampleFlag;
      payload = chunk.GatherSamples(samples);
    }
    chunk.StampChecksum();
    for (const auto part : {chunk.head(), payload}) {
      file.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
  }
  const std::string torn = file.substr(0, file.size() - kChunkAlignment);
  return {std::string("\1\0\0", 3) + file, std::string("\0\0\0", 3) + file,
          std::string("\1\5\3", 3) + file, std::string("\1\0\0", 3) + torn};
}

void Try(fuzz::Input input) {
  const bool must_restamp = (input.Get<uint8_t>() & 1) != 0;
  const uint64_t known_end = input.Get<uint8_t>() * kChunkAlignment;
  const uint64_t durable_min = input.Get<uint8_t>() * kChunkAlignment;
  const auto bytes = std::as_bytes(std::span(input.rest()));
  MemoryFile file;
  file.bytes.assign(bytes.begin(), bytes.end());
  DecodeSegmentHeader(bytes.first(std::min(bytes.size(), kSegmentHeaderBytes)))
      .IgnoreError();
  if (must_restamp) RestampHeads(file.bytes);
  Walk(file, known_end == 0 ? std::nullopt : std::optional<uint64_t>(known_end),
       durable_min);
}

}  // namespace
}  // namespace msitd::storage

namespace msitd::fuzz {

std::vector<std::string> Seeds() { return storage::SeedList(); }

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::storage::Try(msitd::fuzz::Input(data, size));
  return 0;
}
