// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/stream_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace msitd::libmsit {
namespace {

#ifdef __SSE2__

constexpr size_t kLineBytes = 64;

// For shorter copies the fence costs more than it saves.
constexpr size_t kStreamBytesMin = size_t{8} << 10;

// `to` and `bytes` must be multiples of kLineBytes; `from` need not be.
void StreamLines(const std::byte* from, std::byte* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    const auto* in = reinterpret_cast<const __m128i*>(from + i);
    auto* out = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  // Streaming stores are ordered only by a fence, not by a release.
  _mm_sfence();
}

#endif

}  // namespace

void StreamCopy(const std::byte* from, std::span<std::byte> out) {
#ifdef __SSE2__
  if (out.size() >= kStreamBytesMin) {
    const size_t head = -reinterpret_cast<uintptr_t>(out.data()) % kLineBytes;
    const size_t lines = (out.size() - head) / kLineBytes * kLineBytes;
    std::memcpy(out.data(), from, head);
    StreamLines(from + head, out.data() + head, lines);
    from += head + lines;
    out = out.subspan(head + lines);
  }
#endif
  if (!out.empty()) std::memcpy(out.data(), from, out.size());
}

}  // namespace msitd::libmsit
