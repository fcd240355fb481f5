// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/outgoing_chunks.h"

namespace msitd::libmsit {

bool OutgoingChunks::DropOldestToken(int64_t token) {
  if (!overflow_.drops_oldest_token()) return false;
  chunker_.SealBelow(token);
  const std::optional<int64_t> oldest = queue_.OldestToken();
  if (!oldest || *oldest >= token) return false;
  while (Slot* slot = queue_.TakeOut(*oldest)) Drop(slot);
  work_.notify_one();
  return true;
}

void OutgoingChunks::Share(std::span<std::byte> memory) {
  // Seal open chunks now and move them later, because only the shared memory
  // outlives this process.
  chunker_.Seal();
  pool_.Share(memory);
  shared_memory_ = memory;
}

std::optional<OutgoingChunks::Clock::time_point> OutgoingChunks::LingerTime(
    std::chrono::microseconds linger) const {
  const auto since = chunker_.open_since();
  if (!since) return std::nullopt;
  // While half of the memory is waiting for the daemon, sealing partly filled
  // chunks would use up the other half. Open chunks therefore collect records
  // until they are full.
  const size_t waiting_count = pool_.used_count() - chunker_.open_count();
  if ((waiting_count + 1) * 2 > pool_.capacity()) return std::nullopt;
  return *since + linger;
}

std::span<const std::byte> OutgoingChunks::TakeNext() {
  if (queue_.sent_count() >= overflow_.SentMax(pool_.capacity())) return {};
  Slot* const next = queue_.PeekNext();
  if (next == nullptr || !pool_.MoveToShared(next)) return {};
  return queue_.TakeNext()->chunk;
}

bool OutgoingChunks::ReleaseCommitted() {
  bool has_room = false;
  while (Slot* slot = queue_.PopCommitted()) {
    ledger_.Acknowledge(slot->contents);
    pool_.Release(slot);
    has_room = true;
  }
  if (has_room) overflow_.OnProgress();
  return has_room;
}

bool OutgoingChunks::DropRefused() {
  Slot* const slot = queue_.PopRefused();
  if (slot == nullptr) return false;
  overflow_.OnProgress();
  Drop(slot);
  return true;
}

void OutgoingChunks::DropQueued() {
  while (queue_.front() != nullptr && queue_.front()->writer_count == 0) {
    Drop(queue_.PopFront());
  }
}

void OutgoingChunks::DropForGood() {
  chunker_.Seal();
  while (Slot* slot = queue_.PopFront()) {
    if (slot->writer_count == 0) {
      Drop(slot);
    } else {
      ledger_.DropChunk(slot->contents);
      slot->draft().End();
    }
  }
}

void OutgoingChunks::Drop(Slot* slot) {
  ledger_.DropChunk(slot->contents);
  ++drop_count_;
  pool_.Release(slot);
  room_.notify_all();
  progress_.notify_all();
}

std::optional<bool> OutgoingChunks::AwaitDelivery(Clock::time_point deadline,
                                                  InterruptibleWait& wait,
                                                  Lock& lock) {
  chunker_.Seal();
  const uint64_t goal = queue_.pushed_count();
  work_.notify_one();
  while (!queue_.HaveLeft(goal)) {
    switch (wait.Until(progress_, deadline, lock)) {
      case InterruptibleWait::Result::kWoken:
        break;
      case InterruptibleWait::Result::kTimeout:
        return queue_.HaveLeft(goal);
      case InterruptibleWait::Result::kInterrupted:
        return std::nullopt;
    }
  }
  return true;
}

}  // namespace msitd::libmsit
