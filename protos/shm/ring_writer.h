// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protos/os/unique_fd.h"
#include "protos/shm/ring_abi.h"
#include "protos/shm/sealed_memory.h"

namespace msitd::shm {

// The producer's half of a ring. Standard library only: it lives in other
// people's processes.
//
// Publish is called from one thread at a time, committed_count from any.
class RingWriter {
 public:
  // True if `table` is a whole table of this version for an arena of that
  // size.
  static bool IsTable(const MappedRegion& table, uint64_t arena_bytes);

  // IsTable holds for `table`. `arena` stays mapped while the writer lives. The
  // daemon waits for writes to `data_ready`, an eventfd.
  RingWriter(MappedRegion table, std::span<const std::byte> arena,
             UniqueFd data_ready);

  // Publishes the next chunk and wakes the daemon. The chunk lies in the arena
  // and must not change until committed_count covers it. Returns false if all
  // entries are in use or the chunk does not lie in the arena.
  bool Publish(std::span<const std::byte> chunk);

  // Says whether the arena consists of pieces with drafts. While this is true,
  // the daemon takes the drafts if the process ends or closes the session.
  void KeepDrafts(bool keep);

  // Says what recording took so far. The daemon looks when it gets the counts.
  void SetTimes(RingTimes times);

  // Chunks of the stream that are durable, as the daemon says.
  uint64_t committed_count() const;

  // Records of the session that came again with other bytes: all those of the
  // chunks that the last call of committed_count on this thread spoke of, and
  // maybe of later ones.
  uint64_t conflict_count() const;

  // The token at which a producer that appends should begin, as the daemon
  // says.
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
