// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/delivery_queue.h"

#include <algorithm>
#include <cstring>

#include "protos/chunk/chunk_format.h"

namespace msitd::libmsit {
namespace {

std::span<std::byte> FinishChunk(Slot& slot) {
  const std::span<const std::byte> chunk =
      slot.builder.Finish(slot.start_time_ns);
  const std::span<std::byte> memory = slot.memory.bytes();
  return memory.subspan(static_cast<size_t>(chunk.data() - memory.data()),
                        chunk.size());
}

}  // namespace

void DeliveryQueue::Push(Slot* slot) {
  slots_.push_back(slot);
  slot->push_number = pushed_count_++;
}

Slot* DeliveryQueue::PeekNext() {
  if (sent_count_ == slots_.size()) return nullptr;
  Slot* slot = slots_[sent_count_];
  if (slot->writer_count != 0) return nullptr;
  if (slot->chunk.empty()) slot->chunk = FinishChunk(*slot);
  return slot;
}

Slot* DeliveryQueue::TakeNext() {
  Slot* slot = PeekNext();
  if (slot == nullptr) return nullptr;
  const uint64_t sequence = front_sequence_ + sent_count_;
  std::memcpy(slot->chunk.data() + offsetof(chunk::ChunkHeader, chunk_sequence),
              &sequence, sizeof(sequence));
  slot->draft().SetSent(sequence);
  ++sent_count_;
  ever_sent_count_ = std::max(ever_sent_count_, sent_count_);
  return slot;
}

bool DeliveryQueue::Reopen(uint64_t committed_count) {
  if (committed_count > front_sequence_ + ever_sent_count_) return false;
  if (committed_count < front_sequence_) {
    front_sequence_ = committed_count;
    ever_sent_count_ = 0;
  }
  sent_count_ = committed_count - front_sequence_;
  committed_count_ = committed_count;
  return true;
}

bool DeliveryQueue::SetCommitted(uint64_t committed_count) {
  if (committed_count > front_sequence_ + sent_count_ ||
      committed_count < committed_count_) {
    return false;
  }
  committed_count_ = committed_count;
  return true;
}

Slot* DeliveryQueue::PopCommitted() {
  if (front_sequence_ >= committed_count_) return nullptr;
  ++front_sequence_;
  return PopFront();
}

Slot* DeliveryQueue::PopRefused() {
  if (sent_count_ == 0) return nullptr;
  Slot* slot = PopFront();
  // The following chunks get lower numbers, so all of them must be sent again.
  sent_count_ = 0;
  ever_sent_count_ = 0;
  return slot;
}

Slot* DeliveryQueue::PopFront() {
  if (slots_.empty()) return nullptr;
  Slot* slot = slots_.front();
  slots_.pop_front();
  sent_count_ -= std::min<size_t>(sent_count_, 1);
  ever_sent_count_ -= std::min<size_t>(ever_sent_count_, 1);
  return slot;
}

std::optional<int64_t> DeliveryQueue::OldestToken() const {
  std::optional<int64_t> oldest;
  for (size_t i = ever_sent_count_; i < slots_.size(); ++i) {
    if (!MayGo(*slots_[i])) continue;
    oldest = std::min(oldest.value_or(slots_[i]->token), slots_[i]->token);
  }
  return oldest;
}

Slot* DeliveryQueue::TakeOut(int64_t token) {
  for (size_t i = ever_sent_count_; i < slots_.size(); ++i) {
    Slot* slot = slots_[i];
    if (slot->token != token || !MayGo(*slot)) continue;
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(i));
    return slot;
  }
  return nullptr;
}

void DeliveryQueue::Remove(const Slot* slot) { std::erase(slots_, slot); }

}  // namespace msitd::libmsit
