// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/libmsit/core/chunker.h"
#include "client/libmsit/core/delivery/delivery_ledger.h"
#include "client/libmsit/core/delivery/delivery_queue.h"
#include "client/libmsit/core/delivery/slot_pool.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/overflow.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::libmsit {

// The chunks of a client, from the first record until the daemon has
// acknowledged them: open chunks, sealed chunks in the order of delivery, the
// memory of both, and the outcome of each record, counted. Recording threads
// put parts in; the sender takes chunks out.
//
// Also owns the lock of the client, which guards this object and the state of
// its recorder and its sender, and the conditions on which their threads wait.
// Except for mu() and the conditions, functions must be called with mu() held.
// Payload is written without it; see Chunker::PartPlace.
class OutgoingChunks {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  OutgoingChunks(ChunkIdentity identity, Overflow overflow, SlotPool pool)
      : pool_(std::move(pool)),
        chunker_(std::move(identity), overflow.drops_oldest_token(), pool_,
                 queue_),
        overflow_(overflow) {}
  OutgoingChunks(const OutgoingChunks&) = delete;
  OutgoingChunks& operator=(const OutgoingChunks&) = delete;

  std::mutex& mu() const { return mu_; }
  // Recording threads wait here for a free slot or for the client to close.
  std::condition_variable& room() { return room_; }
  // Open, Flush and Close wait here for the queue or the state to change.
  std::condition_variable& progress() { return progress_; }
  // The sender waits here for work.
  std::condition_variable& work() { return work_; }

  DeliveryLedger& ledger() { return ledger_; }
  const DeliveryLedger& ledger() const { return ledger_; }
  Overflow& overflow() { return overflow_; }
  const SlotPool& pool() const { return pool_; }

  // See Chunker. Withdraw does not wake anyone.
  std::optional<Chunker::PartPlace> Reserve(const chunk::RecordSpec& part,
                                            KeptLevel kept) {
    return chunker_.Reserve(part, kept);
  }
  bool Written(const Chunker::PartPlace& place) {
    return chunker_.Written(place);
  }
  bool Withdraw(const Chunker::PartPlace& place) {
    return chunker_.Withdraw(place);
  }
  void Seal() { chunker_.Seal(); }

  // Changes if a chunk is begun or sealed, so that the sender must be woken: it
  // must send sealed chunks, and seal new ones in time.
  struct SealState {
    std::optional<Clock::time_point> open_since;
    uint64_t pushed_count = 0;
    bool operator==(const SealState&) const = default;
  };
  SealState seal_state() const {
    return {chunker_.open_since(), queue_.pushed_count()};
  }

  // Drops the oldest token if it is lower than `token` and the overflow mode
  // requires it. Returns false if nothing was dropped.
  bool DropOldestToken(int64_t token);

  // A number that increases whenever records that were accepted are dropped.
  uint64_t drop_count() const { return drop_count_; }

  // See Chunker.
  void SetRun(std::string run) { chunker_.SetRun(std::move(run)); }
  void SetTokenBase(int64_t base) { chunker_.SetTokenBase(base); }

  // Uses shared memory for all chunks from now on; see SlotPool::Share.
  void Share(std::span<std::byte> memory);
  // Empty until there is shared memory.
  std::span<std::byte> shared_memory() const { return shared_memory_; }

  // Returns true if no sealed chunk is left.
  bool empty() const { return queue_.empty(); }
  // Returns whether there are chunks that were not sent on this connection.
  bool has_unsent() const { return queue_.has_unsent(); }

  // Returns when the open chunks must be sealed if they may stay open for
  // `linger`; nullopt if they may stay open longer.
  std::optional<Clock::time_point> LingerTime(
      std::chrono::microseconds linger) const;

  // Returns the next chunk to send, and counts it as sent. Empty if there is
  // none, or if others must be acknowledged first.
  std::span<const std::byte> TakeNext();

  // Reports that the daemon has the first `committed_count` chunks, on a new
  // connection or on the current one. Returns false if that cannot be; see
  // DeliveryQueue.
  bool Reopen(uint64_t committed_count) {
    return queue_.Reopen(committed_count);
  }
  bool SetCommitted(uint64_t committed_count) {
    return queue_.SetCommitted(committed_count);
  }
  // Counts and frees the chunks that the daemon has. Returns whether there were
  // any.
  bool ReleaseCommitted();

  // Drops the chunk that the daemon refused. Returns false if none can have
  // been refused.
  bool DropRefused();
  // Drops the complete chunks at the front.
  void DropQueued();
  // Drops all chunks when the sender ends. Chunks with open reservations keep
  // their memory.
  void DropForGood();
  // See SlotPool::GiveMemory.
  template <typename Keep>
  void GiveMemory(Keep keep) {
    pool_.GiveMemory(std::move(keep));
  }

  // The number of chunks sealed so far. HaveLeft returns whether the first
  // `count` of them are acknowledged or dropped.
  uint64_t pushed_count() const { return queue_.pushed_count(); }
  bool HaveLeft(uint64_t count) const { return queue_.HaveLeft(count); }
  // Waits until all records so far are acknowledged or dropped. Returns false
  // at the deadline, and nullopt if the host interrupts. Releases `lock`
  // temporarily.
  std::optional<bool> AwaitDelivery(Clock::time_point deadline,
                                    InterruptibleWait& wait, Lock& lock);

 private:
  void Drop(Slot* slot);

  mutable std::mutex mu_;
  std::condition_variable room_;
  std::condition_variable progress_;
  std::condition_variable work_;

  SlotPool pool_;
  DeliveryQueue queue_;
  Chunker chunker_;
  DeliveryLedger ledger_;
  Overflow overflow_;
  std::span<std::byte> shared_memory_;
  uint64_t drop_count_ = 0;
};

}  // namespace msitd::libmsit
