// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"
#include "protos/shm/ring_abi.h"
#include "protos/shm/sealed_memory.h"

namespace msitd::shm {

// The daemon's view of the memory in which one producer lays out its chunks. It
// is read-only, and all of it is safe to read whatever the producer does.
class RingArena {
 public:
  // Makes a new arena. The caller passes its fd() to the producer.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if the size is out of range; those
  // of memfd_create.
  static absl::StatusOr<std::shared_ptr<RingArena>> Create(uint64_t bytes);

  // Takes back the arena that a producer held while the daemon was away.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if `fd` is not sealed memory of a
  // valid arena's size; RESOURCE_EXHAUSTED (RING_INVALID) if the arena has more
  // than `bytes_max`.
  static absl::StatusOr<std::shared_ptr<RingArena>> Adopt(
      UniqueFd fd, uint64_t bytes_max = kArenaBytesMax);

  RingArena(UniqueFd fd, MappedRegion memory)
      : fd_(std::move(fd)), memory_(std::move(memory)) {}

  std::span<const std::byte> bytes() const {
    return {memory_.data(), memory_.size()};
  }
  int fd() const { return fd_.get(); }

  // Closes the descriptor. The memory stays mapped.
  void CloseFd() { fd_.reset(); }

 private:
  UniqueFd fd_;
  MappedRegion memory_;
};

// The daemon's half of a ring. The producer is not trusted.
//
// Next is called from one thread at a time, Commit from another one.
class RingReader {
 public:
  // Makes the table for a session of the stream. The session goes on after the
  // first `committed_count` chunks.
  //
  // Errors: those of memfd_create and eventfd.
  static absl::StatusOr<std::unique_ptr<RingReader>> Create(
      std::shared_ptr<RingArena> arena, uint64_t stream_id,
      uint64_t committed_count);

  RingReader(std::shared_ptr<RingArena> arena, UniqueFd table_fd,
             MappedRegion table, UniqueFd data_ready, uint64_t next);

  // Returns where the next chunk lies, or nothing if it is not published yet.
  // The bytes may still be rewritten by the producer.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if the table contradicts itself.
  // The ring must not be used any more then.
  absl::StatusOr<std::optional<std::span<const std::byte>>> Next();

  // True if Next has a chunk to return or an error to report.
  bool HasNext() const;

  // Returns the pieces of the arena that hold a chunk that was begun but not
  // returned by Next, in the order in which they were begun; none if the
  // producer keeps no drafts. Called only once the producer is dead, because a
  // live one would still publish these chunks.
  std::vector<std::span<const std::byte>> Drafts() const;

  // What recording took in the producer, as it says: any numbers.
  RingTimes Times() const;

  // The number of the chunk that Next returns next.
  uint64_t next() const { return next_; }

  // Bytes of the chunks that are published and not committed, as far as the
  // table can be believed: at most those of the arena. From any thread.
  uint64_t UsedBytes() const;

  // Tells the producer that the first `count` chunks are durable and their
  // memory is free, and that `conflict_count` records of the session came again
  // with other bytes. The caller wakes the producer.
  void Commit(uint64_t count, uint64_t conflict_count);

  const std::shared_ptr<RingArena>& arena() const { return arena_; }

  // Tells a producer that appends where to begin. Called before the table is
  // passed on.
  void SetFirstToken(int64_t token);

  // The caller passes it to the producer and then calls CloseTableFd.
  int table_fd() const { return table_fd_.get(); }
  void CloseTableFd() { table_fd_.reset(); }

  // The producer writes to it after each publication. It is watched
  // edge-triggered and never read, because anybody who has the descriptor could
  // make a read block.
  int data_ready_fd() const { return data_ready_.get(); }

 private:
  RingHeader& header() const {
    return *reinterpret_cast<RingHeader*>(table_.data());
  }

  std::shared_ptr<RingArena> arena_;
  UniqueFd table_fd_;
  MappedRegion table_;
  UniqueFd data_ready_;
  uint64_t next_;
};

}  // namespace msitd::shm
