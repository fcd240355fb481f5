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

  // `table` is one; `arena` is mapped as long as the writer lives. The daemon
  // waits for writes to `data_ready`, an eventfd.
  RingWriter(MappedRegion table, std::span<const std::byte> arena,
             UniqueFd data_ready);

  // Hands the next chunk over and wakes the daemon. The chunk lies in the
  // arena and stays as it is until committed_count covers it. False if the
  // entries are all in use or the chunk lies elsewhere.
  bool Publish(std::span<const std::byte> chunk);

  // Says whether the arena is pieces with drafts, which the daemon takes if
  // this process ends, or closes the session, without having said false.
  void KeepDrafts(bool keep);

  // Chunks of the stream that are durable, as the daemon says.
  uint64_t committed_count() const;

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
