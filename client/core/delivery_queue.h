// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "client/core/slot_pool.h"

namespace msitd::client {

// Sealed chunks in the order in which they are sent, from the first one that
// the daemon has not acknowledged. A chunk gets its number in the stream when
// it is sent, so that one that the daemon refuses leaves no gap.
// Thread-compatible.
//
//   Push --> waiting --TakeNext--> sent --SetCommitted--> PopCommitted
//               ^                   |
//               \----- Reopen ------/
class DeliveryQueue {
 public:
  void Push(Slot* slot);

  // Returns the next chunk to send, complete; null if there is none, or if
  // somebody still writes into it.
  Slot* PeekNext();

  // The same, numbered and sent from now on.
  Slot* TakeNext();

  // A new connection of the stream, of which the daemon holds the first
  // `committed_count` chunks: what it does not hold is sent again. A daemon
  // that holds less than it acknowledged once is taken at its word. Returns
  // false if it claims more than was ever sent.
  bool Reopen(uint64_t committed_count);

  // The daemon holds the first `committed_count` chunks of the stream. Returns
  // false if fewer were sent or more acknowledged before.
  bool SetCommitted(uint64_t committed_count);

  // Returns the chunks that are committed, one by one, then null.
  Slot* PopCommitted();

  // Takes the chunk away that the daemon refused: the first one that is sent
  // and not committed. Null if there is none.
  Slot* PopRefused();

  // Takes the first chunk away, sent or not; null if there is none.
  Slot* PopFront();

  bool empty() const { return slots_.empty(); }
  const Slot* front() const { return empty() ? nullptr : slots_.front(); }

  // Chunks pushed, and those of them that left the queue. They leave in order.
  uint64_t pushed_count() const { return popped_count_ + slots_.size(); }
  uint64_t popped_count() const { return popped_count_; }

 private:
  std::deque<Slot*> slots_;
  // slots_[0] is, or will be, the chunk of this number in the stream.
  uint64_t front_sequence_ = 0;
  uint64_t committed_count_ = 0;
  // How many of slots_ were sent on this connection, and on any one.
  size_t sent_count_ = 0;
  size_t ever_sent_count_ = 0;
  uint64_t popped_count_ = 0;
};

}  // namespace msitd::client
