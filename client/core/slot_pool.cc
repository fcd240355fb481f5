// SPDX-License-Identifier: Apache-2.0
#include "client/core/slot_pool.h"

#include <sys/mman.h>

#include <utility>

namespace msitd::client {

SlotMemory SlotMemory::Map(size_t bytes) {
  SlotMemory memory;
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin != MAP_FAILED) {
    memory.bytes_ = {static_cast<std::byte*>(begin), bytes};
  }
  return memory;
}

SlotMemory::SlotMemory(SlotMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

SlotMemory::~SlotMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Slot* SlotPool::Acquire() {
  if (free_.empty() && slots_.size() < capacity_) {
    SlotMemory memory = SlotMemory::Map(chunk::ChunkBuilder::kBufferBytes);
    if (memory.bytes().empty()) return nullptr;
    free_.reserve(capacity_);
    slots_.push_back(std::make_unique<Slot>(std::move(memory)));
    return slots_.back().get();
  }
  if (free_.empty()) return nullptr;
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::Release(Slot* slot) {
  slot->contents.tensor_count = 0;
  slot->contents.tensor_bytes = 0;
  slot->contents.parts.clear();
  slot->last_sequence = 0;
  slot->chunk = {};
  free_.push_back(slot);
}

void SlotPool::LeakMemory() {
  for (const auto& slot : slots_) slot->memory.Leak();
}

}  // namespace msitd::client
