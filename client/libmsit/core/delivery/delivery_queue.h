// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "client/libmsit/core/delivery/slot_pool.h"

namespace msitd::libmsit {

// Sealed chunks in the order in which they are sent, starting with the first
// one that the daemon has not acknowledged. A chunk receives its number in the
// stream when it is sent. A chunk that is refused, or taken out before it was
// sent, therefore leaves no gap. Thread-compatible.
//
//   Push --> waiting --TakeNext--> sent --SetCommitted--> PopCommitted
//             |  ^                  |
//             |  \----- Reopen -----/
//             \--> TakeOut, if it was never sent
class DeliveryQueue {
 public:
  void Push(Slot* slot);

  // Adds `by` to the tokens of all records. Must be called before any chunk is
  // finished.
  void ShiftTokens(int64_t by) {
    for (Slot* const slot : slots_) slot->ShiftTokens(by);
  }

  // Returns the next chunk to send, finished. Null if there is none, or if a
  // thread still writes into it.
  Slot* PeekNext();

  // Like PeekNext, but also numbers the chunk and counts it as sent.
  Slot* TakeNext();

  // Reports a new connection: the daemon has the first `committed_count` chunks
  // of the stream, and all others are sent again. The count may be lower than
  // one that the daemon acknowledged earlier. Returns false if it is higher
  // than the number of chunks ever sent.
  bool Reopen(uint64_t committed_count);

  // Reports that the daemon has the first `committed_count` chunks of the
  // stream. Returns false if fewer were sent, or if more were acknowledged
  // before.
  bool SetCommitted(uint64_t committed_count);

  // Removes and returns the committed chunks one by one, then null.
  Slot* PopCommitted();

  // Removes the chunk that the daemon refused, which is the first one that was
  // sent and not committed. Null if there is none.
  Slot* PopRefused();

  // Removes the first chunk, sent or not. Null if there is none.
  Slot* PopFront();

  // Returns the lowest token of the chunks that may be taken out: complete
  // chunks that were never sent on any connection. Chunks that were sent on a
  // broken connection may still reach the daemon. Returns nullopt if there is
  // no such chunk.
  std::optional<int64_t> OldestToken() const;

  // Removes the first such chunk of `token`. Null if there is none.
  Slot* TakeOut(int64_t token);

  // Removes a chunk that was never sent, if it is in the queue.
  void Remove(const Slot* slot);

  bool empty() const { return slots_.empty(); }
  // Returns whether there are chunks that were not sent on this connection.
  bool has_unsent() const { return sent_count_ < slots_.size(); }
  const Slot* front() const { return empty() ? nullptr : slots_.front(); }

  // Number of chunks that were sent on this connection and are not committed.
  size_t sent_count() const { return sent_count_; }

  // Number of chunks ever pushed.
  uint64_t pushed_count() const { return pushed_count_; }

  // Returns whether the first `pushed_count` chunks have left the queue.
  bool HaveLeft(uint64_t pushed_count) const {
    return empty() || slots_.front()->push_number >= pushed_count;
  }

 private:
  static bool MayGo(const Slot& slot) { return slot.writer_count == 0; }

  // In the order of their push numbers.
  std::deque<Slot*> slots_;
  // Number that slots_[0] has, or will get, in the stream.
  uint64_t front_sequence_ = 0;
  uint64_t committed_count_ = 0;
  // How many of slots_, from the front, were sent on this connection and on any
  // connection.
  size_t sent_count_ = 0;
  size_t ever_sent_count_ = 0;
  uint64_t pushed_count_ = 0;
};

}  // namespace msitd::libmsit
