// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/ring_writer.h"

#include <unistd.h>

#include <functional>
#include <utility>

namespace msitd::shm {

bool RingWriter::IsTable(const MappedRegion& table, uint64_t arena_bytes) {
  if (!table.valid() || table.size() != kTableBytes) return false;
  const auto& header = *reinterpret_cast<const RingHeader*>(table.data());
  return header.magic == kRingMagic && header.version == kRingVersion &&
         header.entry_count == kRingEntryCount &&
         header.arena_bytes == arena_bytes;
}

RingWriter::RingWriter(MappedRegion table, std::span<const std::byte> arena,
                       UniqueFd data_ready)
    : table_(std::move(table)),
      arena_(arena),
      data_ready_(std::move(data_ready)),
      // The daemon stored this number before it passed the table to the
      // producer.
      next_(header().published_count.load(std::memory_order_relaxed)) {}

bool RingWriter::Publish(std::span<const std::byte> chunk) {
  const std::less<const std::byte*> less;
  if (less(chunk.data(), arena_.data()) ||
      less(arena_.data() + arena_.size(), chunk.data() + chunk.size()) ||
      next_ - committed_count() >= kRingEntryCount) {
    return false;
  }
  auto* entries =
      reinterpret_cast<RingEntry*>(table_.data() + sizeof(RingHeader));
  RingEntry& entry = entries[next_ % kRingEntryCount];
  entry.chunk_sequence.store(next_, std::memory_order_relaxed);
  entry.chunk_offset.store(static_cast<uint64_t>(chunk.data() - arena_.data()),
                           std::memory_order_relaxed);
  entry.chunk_bytes.store(chunk.size(), std::memory_order_relaxed);
  // Releases the entry and the chunk to the load in RingReader::Next.
  header().published_count.store(++next_, std::memory_order_release);
  // Writes once per chunk. This is not on a thread of the host program, so
  // checking whether the daemon is waiting would not pay off. The write cannot
  // block, because the counter never reaches 2^64.
  const uint64_t one = 1;
  (void)!::write(data_ready_.get(), &one, sizeof(one));
  return true;
}

void RingWriter::KeepDrafts(bool keep) {
  // Pairs with the load in RingReader::Drafts.
  header().draft_state.store(keep ? kDraftsKept : 0, std::memory_order_release);
}

void RingWriter::SetTimes(RingTimes times) {
  header().recording_ns.store(times.recording_ns, std::memory_order_relaxed);
  header().open_ns.store(times.open_ns, std::memory_order_relaxed);
}

uint64_t RingWriter::committed_count() const {
  // Pairs with the store in RingReader::Commit: the daemon no longer reads the
  // memory of these chunks.
  return header().committed_count.load(std::memory_order_acquire);
}

uint64_t RingWriter::first_token() const {
  return header().first_token.load(std::memory_order_relaxed);
}

uint64_t RingWriter::conflict_count() const {
  // Acquired with committed_count.
  return header().conflict_count.load(std::memory_order_relaxed);
}

}  // namespace msitd::shm
