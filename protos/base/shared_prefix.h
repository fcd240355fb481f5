// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace msitd {

// Returns the length of the common prefix.
inline size_t SharedPrefixBytes(std::string_view a, std::string_view b) {
  const size_t end = std::min(a.size(), b.size());
  size_t shared = 0;
  for (uint64_t x = 0, y = 0; shared + sizeof(x) <= end; shared += sizeof(x)) {
    std::memcpy(&x, a.data() + shared, sizeof(x));
    std::memcpy(&y, b.data() + shared, sizeof(y));
    if (x != y) break;
  }
  while (shared < end && a[shared] == b[shared]) ++shared;
  return shared;
}

}  // namespace msitd
