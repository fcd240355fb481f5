// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"

namespace msitd::ingest {

// Lends aligned memory for chunks from a fixed budget. Buffers are reused
// because touching fresh pages for the first time costs more than the copy
// itself. Thread-safe.
class BufferPool {
 public:
  static constexpr uint64_t kBufferBytesMax =
      kChunkHeadBytesMax + kChunkPayloadBytesMax;

  // A borrowed buffer, which returns to the pool when it is destroyed. The pool
  // must outlive it.
  class Buffer {
   public:
    Buffer(BufferPool& pool, AlignedBuffer memory, uint64_t bytes)
        : pool_(&pool), memory_(std::move(memory)), bytes_(bytes) {}
    Buffer(Buffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          memory_(std::move(other.memory_)),
          bytes_(other.bytes_) {}
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer() {
      if (pool_ != nullptr) pool_->Return(std::move(memory_));
    }

    // The requested number of bytes, aligned to kChunkAlignment.
    std::span<std::byte> span() { return {memory_.data(), bytes_}; }

   private:
    BufferPool* pool_;
    AlignedBuffer memory_;
    uint64_t bytes_;
  };

  using Taker = absl::AnyInvocable<void(Buffer)>;

  // `bytes_max` bounds the sum of the lent buffers and of those kept for reuse.
  // It must be at least kBufferBytesMax.
  explicit BufferPool(uint64_t bytes_max);

  // Passes `taker` a buffer of `bytes`, at most kBufferBytesMax. If there is
  // room, `taker` runs immediately on this thread. Otherwise it runs later, in
  // the order of the requests, on the thread that makes room. No lock is held
  // while it runs.
  void Acquire(uint64_t bytes, Taker taker);

  uint64_t lent_bytes();

  // Frees the memory that is kept for reuse.
  void DropKept();

 private:
  static constexpr std::array<uint64_t, 5> kSizes = {
      16 << 10, 64 << 10, 256 << 10, 1 << 20, kBufferBytesMax};

  struct Waiter {
    uint64_t bytes;
    Taker taker;
  };

  static size_t SizeIndex(uint64_t bytes);
  bool MakeRoom(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  AlignedBuffer Take(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Return(AlignedBuffer memory);

  const uint64_t bytes_max_;
  Mutex mu_;
  uint64_t lent_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<std::vector<AlignedBuffer>, kSizes.size()> kept_
      ABSL_GUARDED_BY(mu_);
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::ingest
