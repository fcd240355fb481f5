// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protos/base/limits.h"

// The memory that one producer shares with the daemon, version 1.
// docs/format/ring.md has the bytes.
//
// Two memfds, both made, sized and sealed by the daemon:
//
//   arena  the chunks, laid out as the producer likes. Lives as long as the
//          producer, which offers it again to a daemon that was restarted.
//   table  RingHeader | RingEntry[kRingEntryCount]. Lives for one session, so
//          nothing in it can be stale.
//
// Chunk number n of the stream is described by entry n % kRingEntryCount:
//
//   committed_count           published_count
//         v                         v
//   ... 5 | 6 | 7 | ... | 11 | 12 | 13 ...
//   free    the daemon's           free
//
// The producer may write anything anywhere in here. So the daemon loads each
// entry once, checks what it loaded, and never follows it outside the arena.
namespace msitd::shm {

inline constexpr uint32_t kRingMagic = 0x54524d53;  // "SMRT"
inline constexpr uint16_t kRingVersion = 1;

// The most chunks that can be published but not yet committed. An arena holds
// fewer chunks of a size that pays off, so in practice the arena is the bound.
// A power of two.
inline constexpr uint32_t kRingEntryCount = 1024;

// The smallest arena holds two chunks of the largest size; the largest is one
// that 64 ranks of a node can all have.
inline constexpr uint64_t kArenaBytesMin =
    2 * (kChunkHeadBytesMax + kChunkPayloadBytesMax);
inline constexpr uint64_t kArenaBytesMax = uint64_t{1} << 30;

// Value of RingHeader::draft_state; a producer without drafts leaves 0.
inline constexpr uint64_t kDraftsKept = 1;

// Where one chunk lies. The producer writes it before it raises published_count
// past it; the single loads and stores are relaxed.
struct RingEntry {
  std::atomic<uint64_t> chunk_sequence;
  // In the arena, a multiple of kChunkAlignment.
  std::atomic<uint64_t> chunk_offset;
  std::atomic<uint64_t> chunk_bytes;
  std::atomic<uint64_t> reserved;
};

// What recording took in the producer: StreamCoverage has the same.
struct RingTimes {
  uint64_t recording_ns = 0;
  uint64_t open_ns = 0;
};

struct RingHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t reserved;
  uint32_t entry_count;
  uint32_t reserved_2;
  uint64_t arena_bytes;
  uint64_t stream_id;

  // Chunks of the stream that were published. Written by the producer:
  // released by RingWriter::Publish, acquired by RingReader::Next.
  alignas(64) std::atomic<uint64_t> published_count;

  // Written by the producer: kDraftsKept while the arena consists of pieces
  // with drafts (protos/chunk/chunk_draft.h) that the daemon is to take if the
  // producer ends; else 0. Released by RingWriter::KeepDrafts, acquired by
  // RingReader::Drafts.
  std::atomic<uint64_t> draft_state;

  // Written by the producer before each SessionCoverage; see RingTimes. 0 from
  // producers that do not measure it.
  std::atomic<uint64_t> recording_ns;
  std::atomic<uint64_t> open_ns;

  // Chunks of the stream that are durable; the daemon no longer reads their
  // memory. Written by the daemon: released by RingReader::Commit, acquired by
  // RingWriter::committed_count.
  alignas(64) std::atomic<uint64_t> committed_count;

  // Records of the session that came again with other bytes, in the chunks of
  // committed_count at least; 0 from daemons that do not count here. Written by
  // the daemon before committed_count, which releases it.
  std::atomic<uint64_t> conflict_count;

  // The token at which a producer that appends should begin; 0 from daemons
  // that do not say. Written by the daemon before the welcome.
  std::atomic<uint64_t> first_token;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(RingEntry) == 32);
static_assert(offsetof(RingEntry, chunk_sequence) == 0);
static_assert(offsetof(RingEntry, chunk_offset) == 8);
static_assert(offsetof(RingEntry, chunk_bytes) == 16);
static_assert(sizeof(RingHeader) == 192);
static_assert(offsetof(RingHeader, entry_count) == 8);
static_assert(offsetof(RingHeader, arena_bytes) == 16);
static_assert(offsetof(RingHeader, stream_id) == 24);
static_assert(offsetof(RingHeader, published_count) == 64);
static_assert(offsetof(RingHeader, draft_state) == 72);
static_assert(offsetof(RingHeader, recording_ns) == 80);
static_assert(offsetof(RingHeader, open_ns) == 88);
static_assert(offsetof(RingHeader, committed_count) == 128);
static_assert(offsetof(RingHeader, conflict_count) == 136);
static_assert(offsetof(RingHeader, first_token) == 144);

// Size of the table: a whole number of pages.
inline constexpr uint64_t kTableBytes =
    (sizeof(RingHeader) + kRingEntryCount * sizeof(RingEntry) +
     kChunkAlignment - 1) /
    kChunkAlignment * kChunkAlignment;

constexpr bool IsArenaSize(uint64_t bytes) {
  return bytes >= kArenaBytesMin && bytes <= kArenaBytesMax &&
         bytes % kChunkAlignment == 0;
}

}  // namespace msitd::shm
