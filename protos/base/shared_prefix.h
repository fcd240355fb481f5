// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace msitd {

// Returns the length of the common prefix of two texts.
inline size_t SharedPrefixBytes(std::string_view a, std::string_view b) {
  static_assert(std::endian::native == std::endian::little);
  const size_t end = std::min(a.size(), b.size());
  size_t shared = 0;
  for (; shared + sizeof(uint64_t) <= end; shared += sizeof(uint64_t)) {
    uint64_t of_a = 0;
    uint64_t of_b = 0;
    std::memcpy(&of_a, a.data() + shared, sizeof(of_a));
    std::memcpy(&of_b, b.data() + shared, sizeof(of_b));
    if (of_a != of_b) {
      return shared + static_cast<size_t>(std::countr_zero(of_a ^ of_b)) / 8;
    }
  }
  while (shared < end && a[shared] == b[shared]) ++shared;
  return shared;
}

}  // namespace msitd
