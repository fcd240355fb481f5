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

// The daemon's read-only view of the memory in which one producer lays out its
// chunks. All of it can be read safely, regardless of the producer.
class RingArena {
 public:
  // Creates a new arena. The caller passes its fd() to the producer.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if the size is out of range; those
  // of memfd_create.
  static absl::StatusOr<std::shared_ptr<RingArena>> Create(uint64_t bytes);

  // Adopts an arena that a producer kept while the daemon was not running.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if `fd` is not sealed memory with
  // the size of a valid arena; RESOURCE_EXHAUSTED (RING_INVALID) if the arena
  // is larger than `bytes_max`.
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
// Next must be called from one thread at a time, and Commit from one thread at
// a time; the two threads may differ.
class RingReader {
 public:
  // Creates the table for a session of the stream. The session continues after
  // the first `committed_count` chunks.
  //
  // Errors: those of memfd_create and eventfd.
  static absl::StatusOr<std::unique_ptr<RingReader>> Create(
      std::shared_ptr<RingArena> arena, uint64_t stream_id,
      uint64_t committed_count);

  RingReader(std::shared_ptr<RingArena> arena, UniqueFd table_fd,
             MappedRegion table, UniqueFd data_ready, uint64_t next);

  // Returns the bytes of the next chunk, or nothing if it is not published yet.
  // The producer may still change the bytes.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if the table is inconsistent. The
  // ring must not be used after that.
  absl::StatusOr<std::optional<std::span<const std::byte>>> Next();

  // True if Next has a chunk to return or an error to report.
  bool HasNext() const;

  // Returns the pieces of the arena that hold a chunk that was begun but not
  // returned by Next, in the order in which they were begun; empty if the
  // producer keeps no drafts. Must be called only after the producer has ended,
  // because a running producer would still publish these chunks.
  std::vector<std::span<const std::byte>> Drafts() const;

  // Returns the times that the producer reports; any values are possible.
  RingTimes Times() const;

  // Number of the chunk that Next returns next.
  uint64_t next() const { return next_; }

  // Returns the bytes of the chunks that are published but not committed, at
  // most the size of the arena. The table is not trusted. May be called from
  // any thread.
  uint64_t UsedBytes() const;

  // Reports to the producer that the first `count` chunks are durable and their
  // memory is free, and that the run already had `conflict_count` records of
  // the session with other bytes. The caller wakes the producer.
  void Commit(uint64_t count, uint64_t conflict_count);

  const std::shared_ptr<RingArena>& arena() const { return arena_; }

  // Sets the token at which a producer that appends should start. Must be
  // called before the table is passed to the producer.
  void SetFirstToken(int64_t token);

  // The caller passes this descriptor to the producer and then calls
  // CloseTableFd.
  int table_fd() const { return table_fd_.get(); }
  void CloseTableFd() { table_fd_.reset(); }

  // Eventfd that the producer writes to after each publication. It is watched
  // edge-triggered and never read, because any process with the descriptor
  // could make a read block.
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
