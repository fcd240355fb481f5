// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/scratch.h"

#include <algorithm>
#include <iterator>

#include "protos/os/aligned_buffer.h"

namespace msitd::libmsit {

std::span<std::byte> Scratch::Take(uint64_t bytes) {
  if (memory_.bytes().empty()) {
    memory_ = SlotMemory::Map(kBytes);
    if (memory_.bytes().empty()) return {};
    free_.emplace(0, kBytes);
  }
  const uint64_t taken = AlignUp(bytes, kAlignment);
  const auto it = std::find_if(
      free_.begin(), free_.end(),
      [taken](const auto& range) { return range.second >= taken; });
  if (it == free_.end()) return {};
  const auto [begin, length] = *it;
  // Inserted before the old range is erased, because this may fail.
  if (length > taken) free_.emplace(begin + taken, length - taken);
  free_.erase(it);
  return memory_.bytes().subspan(begin, bytes);
}

void Scratch::Give(std::span<std::byte> piece) {
  auto begin = static_cast<uint64_t>(piece.data() - memory_.bytes().data());
  uint64_t end = begin + AlignUp(piece.size(), kAlignment);
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second = end - before->first;
      return;
    }
  }
  free_.emplace_hint(next, begin, end - begin);
}

}  // namespace msitd::libmsit
