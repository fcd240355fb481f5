// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protos/base/limits.h"

// The memory that one producer shares with the daemon, version 1.
// docs/format/ring.md specifies the bytes.
//
// The daemon creates two memfds, sets their sizes and seals them:
//
//   arena  the chunks, in a layout that the producer chooses. Lives as long
//          as the producer, which offers it again after a restart of the
//          daemon.
//   table  RingHeader | RingEntry[kRingEntryCount]. Lives for one session, so
//          its contents are never stale.
//
// Entry n % kRingEntryCount describes chunk number n of the stream:
//
//   committed_count           published_count
//         v                         v
//   ... 5 | 6 | 7 | ... | 11 | 12 | 13 ...
//   free    in use by the daemon    free
//
// Why shared memory. A socket would copy each byte into the kernel and out
// again. With a ring, the producer copies a tensor once, into the arena, and
// the daemon writes the bytes to disk directly from there.
//
// Why two memfds. A table within the arena would need one memfd less. But the
// arena must survive a crash of the daemon, because its chunks may not be
// durable yet, while counters of an earlier session would only mislead the next
// one. With a table per session, reconnecting starts from zeroed memory, and
// the welcome message states which chunk comes next.
//
// Why the daemon owns both. A producer that could shrink the memory would kill
// the daemon with SIGBUS at its next read. The daemon therefore sets the size,
// seals it and checks the seals when a producer offers an arena again.
//
// The costs. The producer can write any value anywhere in this memory at
// any time, also by accident. The daemon must therefore load each entry exactly
// once, validate the loaded values, and never follow an offset outside the
// arena. Bytes may also change between hashing and writing, which frames note
// in kSharedMemoryFlag. The memory of the arena is not available to the
// training job.
namespace msitd::shm {

inline constexpr uint32_t kRingMagic = 0x54524d53;  // "SMRT"
inline constexpr uint16_t kRingVersion = 1;

// Maximum number of chunks that are published but not yet committed. An arena
// has room for fewer chunks of an efficient size, so in practice the arena is
// the limit. A power of two.
inline constexpr uint32_t kRingEntryCount = 1024;

// The smallest arena has room for two chunks of the largest size. The largest
// size is one that all of 64 ranks of a node can have.
inline constexpr uint64_t kArenaBytesMin =
    2 * (kChunkHeadBytesMax + kChunkPayloadBytesMax);
inline constexpr uint64_t kArenaBytesMax = uint64_t{1} << 30;

// Value of RingHeader::draft_state if drafts are kept; 0 from a producer
// without drafts.
inline constexpr uint64_t kDraftsKept = 1;

// Location of one chunk. The producer writes the entry before it increases
// published_count past it; the individual loads and stores are relaxed.
struct RingEntry {
  std::atomic<uint64_t> chunk_sequence;
  // Offset in the arena, a multiple of kChunkAlignment.
  std::atomic<uint64_t> chunk_offset;
  std::atomic<uint64_t> chunk_bytes;
  std::atomic<uint64_t> reserved;
};

// Time that recording took in the producer; see StreamCoverage.
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

  // Number of chunks of the stream that were published. Written by the
  // producer: released by RingWriter::Publish, acquired by RingReader::Next.
  alignas(64) std::atomic<uint64_t> published_count;

  // Written by the producer: kDraftsKept while the arena consists of pieces
  // with drafts (protos/chunk/chunk_draft.h) that the daemon must recover if
  // the producer ends, otherwise 0. Released by RingWriter::KeepDrafts,
  // acquired by RingReader::Drafts.
  std::atomic<uint64_t> draft_state;

  // Written by the producer before each SessionCoverage; see RingTimes. 0 from
  // producers that do not measure it.
  std::atomic<uint64_t> recording_ns;
  std::atomic<uint64_t> open_ns;

  // Number of chunks of the stream that are durable. The daemon no longer reads
  // their memory. Written by the daemon: released by RingReader::Commit,
  // acquired by RingWriter::committed_count.
  alignas(64) std::atomic<uint64_t> committed_count;

  // Number of records of the session that the run already had with other bytes,
  // in at least the chunks of committed_count. 0 from daemons that do not count
  // them here. Written by the daemon before committed_count, whose store
  // releases it.
  std::atomic<uint64_t> conflict_count;

  // Token at which a producer that appends should start; 0 from daemons that do
  // not set it. Written by the daemon before the welcome.
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

// Size of the table, a multiple of the page size.
inline constexpr uint64_t kTableBytes =
    (sizeof(RingHeader) + kRingEntryCount * sizeof(RingEntry) +
     kChunkAlignment - 1) /
    kChunkAlignment * kChunkAlignment;

constexpr bool IsArenaSize(uint64_t bytes) {
  return bytes >= kArenaBytesMin && bytes <= kArenaBytesMax &&
         bytes % kChunkAlignment == 0;
}

}  // namespace msitd::shm
