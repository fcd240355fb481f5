// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/slot_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace msitd::libmsit {
namespace {

using chunk::ChunkBuilder;

// Accessing a shared page that the system cannot provide raises SIGBUS, so the
// pages are allocated in advance. Returns false if the system has none.
bool Populate(std::span<std::byte> piece) {
  // Linux 5.14; the headers may be older.
  constexpr int kMadvPopulateWrite = 23;
  return ::madvise(piece.data(), piece.size(), kMadvPopulateWrite) == 0 ||
         errno == EINVAL;
}

}  // namespace

SlotMemory SlotMemory::Map(size_t bytes) {
  SlotMemory memory;
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin != MAP_FAILED) {
    memory.bytes_ = {static_cast<std::byte*>(begin), bytes};
  }
  return memory;
}

SlotMemory SlotMemory::Shared(std::span<std::byte> piece) {
  SlotMemory memory;
  memory.bytes_ = piece;
  memory.is_shared_ = true;
  return memory;
}

SlotMemory::SlotMemory(SlotMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), is_shared_(other.is_shared_) {}

SlotMemory& SlotMemory::operator=(SlotMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(is_shared_, other.is_shared_);
  return *this;
}

SlotMemory::~SlotMemory() {
  if (!bytes_.empty() && !is_shared_) ::munmap(bytes_.data(), bytes_.size());
}

SlotMemory SlotPool::NewMemory() {
  if (!is_shared_) return SlotMemory::Map(ChunkBuilder::kBufferBytes);
  if (pieces_.empty() || !Populate(pieces_.back())) return {};
  const std::span<std::byte> piece = pieces_.back();
  pieces_.pop_back();
  return SlotMemory::Shared(piece);
}

Slot* SlotPool::Acquire() {
  if (free_.empty() && slots_.size() < capacity_) {
    SlotMemory memory = NewMemory();
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
  slot->draft().End();
  slot->contents.tensor_count = 0;
  slot->contents.tensor_bytes = 0;
  slot->contents.degraded_count = 0;
  slot->contents.parts.clear();
  slot->last_sequence = 0;
  slot->chunk = {};
  if (slot->is_still_written) return;
  // A surplus slot gives its piece to a chunk that must be moved.
  if (slot->memory.is_shared() != is_shared_ || slots_.size() > capacity_) {
    return Remove(slot);
  }
  free_.push_back(slot);
}

void SlotPool::Remove(Slot* slot) {
  // Does not allocate, because Share has reserved the room.
  if (slot->memory.is_shared()) pieces_.push_back(slot->memory.bytes());
  std::erase_if(slots_, [slot](const auto& one) { return one.get() == slot; });
}

void SlotPool::Share(std::span<std::byte> memory) {
  const size_t count = memory.size() / ChunkBuilder::kBufferBytes;
  pieces_.reserve(count);
  // Reversed, so that the first piece is used first.
  for (size_t i = count; i > 0; --i) {
    pieces_.push_back(memory.subspan((i - 1) * ChunkBuilder::kBufferBytes,
                                     ChunkBuilder::kBufferBytes));
  }
  is_shared_ = true;
  shared_count_ = count;
  capacity_ = std::min(capacity_, count);
  for (Slot* slot : std::exchange(free_, {})) Remove(slot);
}

void SlotPool::CountChunk(int64_t token, uint64_t bytes) {
  if (!room_) return;
  room_->Count(token, bytes);
  capacity_ = std::min(room_->slot_count(), shared_count_);
  // Removes the least recently used slots first.
  while (slots_.size() > capacity_ && !free_.empty()) {
    Slot* slot = free_.front();
    free_.erase(free_.begin());
    Remove(slot);
  }
}

bool SlotPool::MoveToShared(Slot* slot) {
  if (slot->memory.is_shared() == is_shared_) return true;
  SlotMemory memory = NewMemory();
  if (memory.bytes().empty()) return false;
  const auto offset =
      static_cast<size_t>(slot->chunk.data() - slot->memory.bytes().data());
  const std::span<std::byte> chunk =
      memory.bytes().subspan(offset, slot->chunk.size());
  std::memcpy(chunk.data(), slot->chunk.data(), chunk.size());
  slot->draft().CopyTo(memory.bytes());
  slot->builder = ChunkBuilder(memory.bytes());
  slot->chunk = chunk;
  std::swap(slot->memory, memory);
  if (std::exchange(slot->is_still_written, false)) {
    left_memory_.push_back(std::move(memory));
  }
  return true;
}

}  // namespace msitd::libmsit
