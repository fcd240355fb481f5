// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/ring_reader.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "protos/chunk/chunk_draft.h"
#include "protos/status/status.h"

namespace msitd::shm {
namespace {

template <typename... Args>
absl::Status Refused(fmt::format_string<Args...> format, Args&&... args) {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument, format,
                               std::forward<Args>(args)...),
                    ErrorReason::kRingInvalid);
}

absl::StatusOr<std::shared_ptr<RingArena>> Map(UniqueFd fd, uint64_t bytes) {
  MappedRegion memory(fd.get(), bytes, PROT_READ);
  if (!memory.valid()) return ErrnoStatus(errno, "map the arena of a ring");
  memory.AskForHugePages();
  return std::make_shared<RingArena>(std::move(fd), std::move(memory));
}

}  // namespace

absl::StatusOr<std::shared_ptr<RingArena>> RingArena::Create(uint64_t bytes) {
  if (!IsArenaSize(bytes)) {
    return Refused("an arena of {} bytes is not in {}..{} by {}", bytes,
                   kArenaBytesMin, kArenaBytesMax, kChunkAlignment);
  }
  UniqueFd fd = MakeSealedMemory("msitd-arena", bytes);
  if (!fd.valid()) return ErrnoStatus(errno, "make the arena of a ring");
  return Map(std::move(fd), bytes);
}

absl::StatusOr<std::shared_ptr<RingArena>> RingArena::Adopt(
    UniqueFd fd, uint64_t bytes_max) {
  const std::optional<uint64_t> bytes = SealedMemorySize(fd.get());
  if (!bytes.has_value()) return Refused("the arena is no sealed memory");
  if (!IsArenaSize(*bytes)) {
    return Refused("an arena of {} bytes is not in {}..{} by {}", *bytes,
                   kArenaBytesMin, kArenaBytesMax, kChunkAlignment);
  }
  if (*bytes > bytes_max) {
    return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                 "an arena of {} bytes is over ring_bytes_max, "
                                 "{}",
                                 *bytes, bytes_max),
                      ErrorReason::kRingInvalid);
  }
  return Map(std::move(fd), *bytes);
}

RingReader::RingReader(std::shared_ptr<RingArena> arena, UniqueFd table_fd,
                       MappedRegion table, UniqueFd data_ready, uint64_t next)
    : arena_(std::move(arena)),
      table_fd_(std::move(table_fd)),
      table_(std::move(table)),
      data_ready_(std::move(data_ready)),
      next_(next) {}

absl::StatusOr<std::unique_ptr<RingReader>> RingReader::Create(
    std::shared_ptr<RingArena> arena, uint64_t stream_id,
    uint64_t committed_count) {
  UniqueFd fd = MakeSealedMemory("msitd-table", kTableBytes);
  if (!fd.valid()) return ErrnoStatus(errno, "make the table of a ring");
  MappedRegion table(fd.get(), kTableBytes, PROT_READ | PROT_WRITE);
  if (!table.valid()) return ErrnoStatus(errno, "map the table of a ring");
  UniqueFd data_ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!data_ready.valid()) return ErrnoStatus(errno, "eventfd");
  auto* header = new (table.data()) RingHeader{};
  header->magic = kRingMagic;
  header->version = kRingVersion;
  header->entry_count = kRingEntryCount;
  header->arena_bytes = arena->bytes().size();
  header->stream_id = stream_id;
  header->published_count.store(committed_count, std::memory_order_relaxed);
  header->committed_count.store(committed_count, std::memory_order_relaxed);
  return std::make_unique<RingReader>(std::move(arena), std::move(fd),
                                      std::move(table), std::move(data_ready),
                                      committed_count);
}

absl::StatusOr<std::optional<std::span<const std::byte>>> RingReader::Next() {
  // Pairs with the store in RingWriter::Publish.
  const uint64_t published =
      header().published_count.load(std::memory_order_acquire);
  if (published == next_) return std::nullopt;
  if (published < next_ || published - next_ > kRingEntryCount) {
    return Refused("{} chunks are published behind chunk {}", published, next_);
  }
  const auto* entries =
      reinterpret_cast<const RingEntry*>(table_.data() + sizeof(RingHeader));
  const RingEntry& entry = entries[next_ % kRingEntryCount];
  const uint64_t sequence =
      entry.chunk_sequence.load(std::memory_order_relaxed);
  const uint64_t offset = entry.chunk_offset.load(std::memory_order_relaxed);
  const uint64_t bytes = entry.chunk_bytes.load(std::memory_order_relaxed);
  if (sequence != next_) {
    return Refused("the entry of chunk {} says {}", next_, sequence);
  }
  // Checked against the mapping, because arena_bytes in the header may have
  // changed.
  const std::span<const std::byte> arena = arena_->bytes();
  if (offset % kChunkAlignment != 0 || offset > arena.size() ||
      bytes > arena.size() - offset) {
    return Refused("chunk {} has {} bytes at {} of an arena of {}", next_,
                   bytes, offset, arena.size());
  }
  ++next_;
  return arena.subspan(offset, bytes);
}

bool RingReader::HasNext() const {
  return header().published_count.load(std::memory_order_relaxed) != next_;
}

std::vector<std::span<const std::byte>> RingReader::Drafts() const {
  // Pairs with the store in RingWriter::KeepDrafts.
  if (header().draft_state.load(std::memory_order_acquire) != kDraftsKept) {
    return {};
  }
  struct FoundPiece {
    uint64_t number;
    std::span<const std::byte> piece;
  };
  std::vector<FoundPiece> found;
  const std::span<const std::byte> arena = arena_->bytes();
  for (uint64_t at = 0; chunk::kPieceBytes <= arena.size() - at;
       at += chunk::kPieceBytes) {
    const std::span<const std::byte> piece =
        arena.subspan(at, chunk::kPieceBytes);
    const auto& draft =
        *reinterpret_cast<const chunk::DraftHeader*>(piece.data());
    // Pairs with the store in Draft::Start.
    const uint64_t number = draft.number.load(std::memory_order_acquire);
    const uint64_t sent = draft.sent_count.load(std::memory_order_relaxed);
    const bool was_taken = sent != 0 && sent <= next_;
    if (number != 0 && !was_taken) found.push_back({number, piece});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundPiece& a, const FoundPiece& b) {
              return a.number < b.number;
            });
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(found.size());
  for (const FoundPiece& one : found) pieces.push_back(one.piece);
  return pieces;
}

RingTimes RingReader::Times() const {
  return {header().recording_ns.load(std::memory_order_relaxed),
          header().open_ns.load(std::memory_order_relaxed)};
}

uint64_t RingReader::UsedBytes() const {
  const auto* entries =
      reinterpret_cast<const RingEntry*>(table_.data() + sizeof(RingHeader));
  const uint64_t begin =
      header().committed_count.load(std::memory_order_relaxed);
  const uint64_t end = header().published_count.load(std::memory_order_relaxed);
  const uint64_t count =
      end < begin ? 0 : std::min<uint64_t>(end - begin, kRingEntryCount);
  const uint64_t arena_bytes = arena_->bytes().size();
  uint64_t used = 0;
  for (uint64_t i = 0; i < count && used < arena_bytes; ++i) {
    const RingEntry& entry = entries[(begin + i) % kRingEntryCount];
    used += std::min(entry.chunk_bytes.load(std::memory_order_relaxed),
                     arena_bytes);
  }
  return std::min(used, arena_bytes);
}

void RingReader::SetFirstToken(int64_t token) {
  header().first_token.store(static_cast<uint64_t>(token),
                             std::memory_order_relaxed);
}

void RingReader::Commit(uint64_t count, uint64_t conflict_count) {
  // Released by the store below.
  header().conflict_count.store(conflict_count, std::memory_order_relaxed);
  // Releases the memory of these chunks to RingWriter::committed_count.
  header().committed_count.store(count, std::memory_order_release);
}

}  // namespace msitd::shm
