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

// The memory in which one producer lays out its chunks, as the daemon sees it:
// read-only, and safe to touch from end to end whatever the producer does.
class RingArena {
 public:
  // Makes a new one; `fd` of it is to be passed to the producer.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if the size is out of range; those
  // of memfd_create.
  static absl::StatusOr<std::shared_ptr<RingArena>> Create(uint64_t bytes);

  // Takes back the one that a producer held while the daemon was away.
  //
  // Errors: INVALID_ARGUMENT (RING_INVALID) if `fd` is no sealed memory of an
  // arena's size; RESOURCE_EXHAUSTED (RING_INVALID) if it is one of more than
  // `bytes_max`.
  static absl::StatusOr<std::shared_ptr<RingArena>> Adopt(
      UniqueFd fd, uint64_t bytes_max = kArenaBytesMax);

  RingArena(UniqueFd fd, MappedRegion memory)
      : fd_(std::move(fd)), memory_(std::move(memory)) {}

  std::span<const std::byte> bytes() const {
    return {memory_.data(), memory_.size()};
  }
  int fd() const { return fd_.get(); }

  // The memory stays mapped; a descriptor of it is no longer needed.
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
  // Makes the table for a session of the stream, which goes on behind its
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
  // The ring is of no more use then.
  absl::StatusOr<std::optional<std::span<const std::byte>>> Next();

  // Whether Next has something to return, or to refuse.
  bool HasNext() const;

  // Returns the pieces of the arena with a chunk that was begun and is not
  // among those that Next has returned, in the order in which they were begun.
  // None if the producer keeps no drafts. To be called once it is dead: one
  // that is not would send them again.
  std::vector<std::span<const std::byte>> Drafts() const;

  // The number of the chunk that Next returns next.
  uint64_t next() const { return next_; }

  // Tells the producer that the first `count` chunks are durable and that
  // their memory is free. The caller wakes the producer.
  void Commit(uint64_t count);

  const std::shared_ptr<RingArena>& arena() const { return arena_; }

  // To be passed to the producer, and closed by CloseTableFd then.
  int table_fd() const { return table_fd_.get(); }
  void CloseTableFd() { table_fd_.reset(); }

  // The producer writes it after each publication. To be watched edge by edge
  // and never read: whoever has a descriptor of it can make a read block.
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
