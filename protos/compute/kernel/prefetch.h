// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Prefetching for kernels. They read memory in order, but the prefetches of the
// CPU itself are too late for them, and end at each page of 4 KiB.
namespace msitd::compute {

// Far enough for the latency of memory, near enough to stay in the first-level
// cache until it is read.
inline constexpr size_t kPrefetchDistance = size_t{4} << 10;
inline constexpr size_t kCacheLineBytes = 64;

// Prefetches the `bytes` that begin kPrefetchDistance after `at`. They need not
// exist. Always inlined, because GCC removes other calls as effectless.
[[gnu::always_inline]] inline void PrefetchAhead(const std::byte* at,
                                                 size_t bytes) {
  for (size_t line = 0; line < bytes; line += kCacheLineBytes) {
    __builtin_prefetch(at + kPrefetchDistance + line);
  }
}

}  // namespace msitd::compute
