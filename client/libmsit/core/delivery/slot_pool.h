// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/libmsit/core/delivery/delivery_ledger.h"
#include "client/libmsit/core/delivery/step_room.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::libmsit {

// Page-aligned memory for one chunk: either a mapping of its own, whose pages
// are allocated when they are first written, or a piece of the shared memory.
class SlotMemory {
 public:
  // Empty if the system has no memory left.
  static SlotMemory Map(size_t bytes);

  // `piece` must outlive the object.
  static SlotMemory Shared(std::span<std::byte> piece);

  SlotMemory() = default;
  SlotMemory(SlotMemory&& other) noexcept;
  SlotMemory& operator=(SlotMemory&& other) noexcept;
  ~SlotMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  bool is_shared() const { return is_shared_; }

  // Gives up the object's own mapping, which the caller must unmap. Empty if
  // the memory is shared or there is none.
  std::span<std::byte> Release() {
    return is_shared_ ? std::span<std::byte>()
                      : std::exchange(bytes_, std::span<std::byte>());
  }

 private:
  std::span<std::byte> bytes_;
  bool is_shared_ = false;
};

// The memory and state of one chunk: filled by recording threads, then sent,
// then kept until the daemon has it. All members except the payload are
// accessed with the client's lock held.
struct Slot {
  explicit Slot(SlotMemory chunk_memory)
      : memory(std::move(chunk_memory)), builder(memory.bytes()) {}

  // The draft from which the daemon recovers the records of the chunk if this
  // process dies.
  chunk::Draft draft() const { return chunk::Draft(memory.bytes()); }

  // Adds `by` to the tokens of the records, unless they are fixed.
  void ShiftTokens(int64_t by) {
    if (!is_token_fixed) builder.ShiftTokens(by);
  }

  SlotMemory memory;
  chunk::ChunkBuilder builder;
  ChunkContents contents;
  // Threads that are copying payload into the slot, and parts of reservations.
  uint32_t writer_count = 0;
  // True if the host may still write into the memory, because a reservation was
  // withdrawn before the host ended it. Such memory is not reused.
  bool is_still_written = false;
  uint64_t last_sequence = 0;
  // Token of the first record, relative to the token base.
  int64_t token = 0;
  // True if the tokens of the records are numbers of the run.
  bool is_token_fixed = false;
  // Number of chunks pushed into the delivery queue before this one.
  uint64_t push_number = 0;
  std::chrono::steady_clock::time_point start_time;
  int64_t start_time_ns = 0;
  // The finished chunk; empty while a thread writes into it.
  std::span<std::byte> chunk;
};

// Owns a bounded number of slots. Slots in use do not move. Thread-compatible.
//
// Slots have memory of their own until there is shared memory, and pieces of
// the shared memory after that. MoveToShared copies chunks that were begun
// earlier.
class SlotPool {
 public:
  explicit SlotPool(size_t capacity) : capacity_(capacity) {}

  // The capacity follows `room.slot_count()`.
  explicit SlotPool(const StepRoom& room)
      : capacity_(room.slot_count()), room_(room) {}

  // Returns an empty slot; null if all are in use or the system has no memory.
  Slot* Acquire();
  void Release(Slot* slot);

  // Uses `memory`, which must outlive the pool, for all slots from now on. The
  // capacity shrinks if `memory` has room for fewer slots. Called at most once.
  void Share(std::span<std::byte> memory);

  // Moves a complete chunk into the shared memory, unless it is already there
  // or there is none. Returns false if a slot must be released first.
  bool MoveToShared(Slot* slot);

  // Records that a chunk was filled; see StepRoom::Count.
  void CountChunk(int64_t token, uint64_t bytes);

  size_t capacity() const { return capacity_; }
  size_t used_count() const { return slots_.size() - free_.size(); }
  // Zero while more slots are in use than the capacity allows.
  size_t free_count() const {
    return capacity_ - std::min(capacity_, used_count());
  }

  // Passes the mappings of all slots that may have been sent to `keep`, one by
  // one. They are not used afterwards.
  template <typename Keep>
  void GiveMemory(Keep keep) {
    for (const auto& slot : slots_) {
      if (slot->writer_count != 0 || slot->is_still_written) continue;
      const std::span<std::byte> mapping = slot->memory.Release();
      if (!mapping.empty()) keep(mapping);
    }
  }

 private:
  SlotMemory NewMemory();
  void Remove(Slot* slot);

  size_t capacity_;
  std::optional<StepRoom> room_;
  // Number of slots that fit into the shared memory.
  size_t shared_count_ = std::numeric_limits<size_t>::max();
  bool is_shared_ = false;
  // Memory of chunks that were moved while the host could still write to it.
  std::vector<SlotMemory> left_memory_;
  // Pieces of the shared memory that belong to no slot.
  std::vector<std::span<std::byte>> pieces_;
  std::vector<std::unique_ptr<Slot>> slots_;
  // Most recently used last, because its pages are warm.
  std::vector<Slot*> free_;
};

}  // namespace msitd::libmsit
