// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/read_around.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace msitd::storage {

bool ReadAround::Find(SegmentId segment, uint64_t offset,
                      std::span<std::byte> out, bool& is_next) {
  std::shared_ptr<const AlignedBuffer> memory;
  uint64_t begin = 0;
  {
    const MutexLock lock(mu_);
    is_next = Follows({ToNumber(segment), offset + out.size()}, offset);
    for (const Window& window : windows_) {
      if (window.segment != ToNumber(segment) || offset < window.offset ||
          offset + out.size() > window.offset + window.bytes) {
        continue;
      }
      memory = window.memory;
      begin = offset - window.offset;
      break;
    }
  }
  if (memory == nullptr) return false;
  std::memcpy(out.data(), memory->data() + begin, out.size());
  return true;
}

bool ReadAround::Follows(const Reader& piece, uint64_t offset) {
  for (auto it = readers_.begin(); it != readers_.end(); ++it) {
    if (it->segment != piece.segment || offset < it->end ||
        offset > it->end + kGapBytesMax) {
      continue;
    }
    readers_.erase(it);
    readers_.push_front(piece);
    return true;
  }
  readers_.push_front(piece);
  if (readers_.size() > kReadersMax) readers_.pop_back();
  return false;
}

void ReadAround::Add(Window window) {
  const MutexLock lock(mu_);
  windows_.push_front(std::move(window));
  if (windows_.size() > kWindowsMax) windows_.pop_back();
}

void ReadAround::Forget(SegmentId segment) {
  const MutexLock lock(mu_);
  std::erase_if(windows_, [&](const Window& window) {
    return window.segment == ToNumber(segment);
  });
}

}  // namespace msitd::storage
