// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protos/os/unique_fd.h"
#include "protos/shm/ring_abi.h"
#include "protos/shm/sealed_memory.h"

namespace msitd::shm {

// The producer's half of a ring. Depends on the standard library only, because
// it is part of foreign processes.
//
// Publish must be called from one thread at a time; committed_count may be
// called from any thread.
class RingWriter {
 public:
  // True if `table` is a complete table of this version for an arena of
  // `arena_bytes` bytes.
  static bool IsTable(const MappedRegion& table, uint64_t arena_bytes);

  // Requires IsTable for `table`. `arena` must stay mapped while the writer
  // exists. The daemon waits for writes to `data_ready`, an eventfd.
  RingWriter(MappedRegion table, std::span<const std::byte> arena,
             UniqueFd data_ready);

  // Publishes the next chunk and wakes the daemon. The chunk must be in the
  // arena and must not change until committed_count covers it. Returns false if
  // all entries are in use or the chunk is not in the arena.
  bool Publish(std::span<const std::byte> chunk);

  // Sets whether the arena consists of pieces with drafts. While this is true,
  // the daemon recovers the drafts if the process ends or closes the session.
  void KeepDrafts(bool keep);

  // Sets the time that recording has taken so far. The daemon reads it when it
  // receives the counts.
  void SetTimes(RingTimes times);

  // Number of chunks of the stream that are durable, as reported by the daemon.
  uint64_t committed_count() const;

  // Number of records of the session that the run already had with other bytes.
  // Includes all records of the chunks that the last call of committed_count on
  // this thread covered, and possibly later ones.
  uint64_t conflict_count() const;

  // Token at which a producer that appends should start, as reported by the
  // daemon.
  uint64_t first_token() const;

 private:
  RingHeader& header() const {
    return *reinterpret_cast<RingHeader*>(table_.data());
  }

  MappedRegion table_;
  std::span<const std::byte> arena_;
  UniqueFd data_ready_;
  uint64_t next_;
};

}  // namespace msitd::shm
