// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Kernels read memory in order, but do more with it than the CPU looks ahead:
// what it fetches by itself ends at a page of 4 KiB, and comes late.
namespace msitd::compute {

// Far enough for the latency of memory, near enough to stay in the first-level
// cache until it is read.
inline constexpr size_t kPrefetchDistance = size_t{4} << 10;
inline constexpr size_t kCacheLineBytes = 64;

// Asks for the `bytes` that follow kPrefetchDistance behind `at`. They need
// not exist. GCC drops calls that are not inlined, for want of an effect.
[[gnu::always_inline]] inline void PrefetchAhead(const std::byte* at,
                                                 size_t bytes) {
  for (size_t line = 0; line < bytes; line += kCacheLineBytes) {
    __builtin_prefetch(at + kPrefetchDistance + line);
  }
}

}  // namespace msitd::compute
