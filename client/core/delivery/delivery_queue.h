// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "client/core/delivery/slot_pool.h"

namespace msitd::client {

// Sealed chunks in the order in which they are sent, from the first one that
// the daemon has not acknowledged. A chunk gets its number in the stream when
// it is sent, so that one that the daemon refuses, or that is taken out before,
// leaves no gap. Thread-compatible.
//
//   Push --> waiting --TakeNext--> sent --SetCommitted--> PopCommitted
//             |  ^                  |
//             |  \----- Reopen -----/
//             \--> TakeOut, if it was never sent
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

  // The lowest Slot::token of the chunks that may be taken out: those that are
  // complete and were sent on no connection, for a daemon that broke one off
  // may have what came over it. Nothing if there is none.
  std::optional<int64_t> OldestToken() const;

  // Takes the first such chunk of `token` out; null if there is none.
  Slot* TakeOut(int64_t token);

  bool empty() const { return slots_.empty(); }
  // There are chunks that were not sent on this connection.
  bool has_unsent() const { return sent_count_ < slots_.size(); }
  const Slot* front() const { return empty() ? nullptr : slots_.front(); }

  // Chunks that were sent on this connection and are not committed.
  size_t sent_count() const { return sent_count_; }

  // Chunks ever pushed.
  uint64_t pushed_count() const { return pushed_count_; }

  // True if the first `pushed_count` of them have left the queue.
  bool HaveLeft(uint64_t pushed_count) const {
    return empty() || slots_.front()->push_number >= pushed_count;
  }

 private:
  static bool MayGo(const Slot& slot) { return slot.writer_count == 0; }

  // In the order of their push numbers.
  std::deque<Slot*> slots_;
  // slots_[0] is, or will be, the chunk of this number in the stream.
  uint64_t front_sequence_ = 0;
  uint64_t committed_count_ = 0;
  // How many of slots_ were sent on this connection, and on any one.
  size_t sent_count_ = 0;
  size_t ever_sent_count_ = 0;
  uint64_t pushed_count_ = 0;
};

}  // namespace msitd::client
