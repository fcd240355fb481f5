// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/buffer_pool.h"

#include <utility>

#include "protos/base/check.h"

namespace msitd::ingest {

BufferPool::BufferPool(uint64_t bytes_max) : bytes_max_(bytes_max) {
  MSITD_CHECK(bytes_max >= kBufferBytesMax);
}

size_t BufferPool::SizeIndex(uint64_t bytes) {
  MSITD_CHECK(bytes <= kBufferBytesMax);
  size_t index = 0;
  while (kSizes[index] < bytes) ++index;
  return index;
}

bool BufferPool::MakeRoom(size_t index) {
  const uint64_t size = kSizes[index];
  if (lent_bytes_ + size > bytes_max_) return false;
  if (!kept_[index].empty()) return true;
  // Frees unused buffers of other sizes, the largest first.
  for (size_t i = kSizes.size(); i-- > 0;) {
    while (lent_bytes_ + kept_bytes_ + size > bytes_max_ && !kept_[i].empty()) {
      kept_[i].pop_back();
      kept_bytes_ -= kSizes[i];
    }
  }
  return true;
}

AlignedBuffer BufferPool::Take(size_t index) {
  lent_bytes_ += kSizes[index];
  if (kept_[index].empty()) return AlignedBuffer(kSizes[index]);
  AlignedBuffer memory = std::move(kept_[index].back());
  kept_[index].pop_back();
  kept_bytes_ -= kSizes[index];
  return memory;
}

void BufferPool::Acquire(uint64_t bytes, Taker taker) {
  const size_t index = SizeIndex(bytes);
  AlignedBuffer memory;
  {
    MutexLock lock(mu_);
    if (!waiters_.empty() || !MakeRoom(index)) {
      waiters_.push_back({bytes, std::move(taker)});
      return;
    }
    memory = Take(index);
  }
  taker(Buffer(*this, std::move(memory), bytes));
}

void BufferPool::Return(AlignedBuffer memory) {
  struct Served {
    Waiter waiter;
    AlignedBuffer memory;
  };
  std::vector<Served> served;
  {
    MutexLock lock(mu_);
    const size_t index = SizeIndex(memory.size());
    lent_bytes_ -= kSizes[index];
    kept_bytes_ += kSizes[index];
    kept_[index].push_back(std::move(memory));
    while (!waiters_.empty()) {
      const size_t wanted = SizeIndex(waiters_.front().bytes);
      if (!MakeRoom(wanted)) break;
      served.push_back({std::move(waiters_.front()), Take(wanted)});
      waiters_.pop_front();
    }
  }
  for (Served& s : served) {
    s.waiter.taker(Buffer(*this, std::move(s.memory), s.waiter.bytes));
  }
}

void BufferPool::DropKept() {
  std::array<std::vector<AlignedBuffer>, kSizes.size()> kept;
  MutexLock lock(mu_);
  kept.swap(kept_);
  kept_bytes_ = 0;
}

uint64_t BufferPool::lent_bytes() {
  MutexLock lock(mu_);
  return lent_bytes_;
}

}  // namespace msitd::ingest
