// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace msitd::libmsit {
namespace {

constexpr size_t kMargin = 256;
constexpr std::byte kUntouched{0xa5};

std::vector<std::byte> Numbers(size_t count) {
  std::vector<std::byte> bytes(count);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Copies `size` bytes. `from_shift` and `to_shift` are offsets within a cache
// line. Checks all bytes around the result.
void ExpectCopied(size_t size, size_t from_shift, size_t to_shift) {
  SCOPED_TRACE(testing::Message()
               << size << " bytes from " << from_shift << " to " << to_shift);
  const std::vector<std::byte> from = Numbers(size + kMargin);
  std::vector<std::byte> to(size + 2 * kMargin, kUntouched);
  const size_t line = -reinterpret_cast<uintptr_t>(to.data()) % 64;
  const size_t begin = line + 64 + to_shift;
  StreamCopy(from.data() + from_shift, std::span(to).subspan(begin, size));
  EXPECT_TRUE(std::equal(from.begin() + from_shift,
                         from.begin() + from_shift + size, to.begin() + begin));
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  EXPECT_TRUE(std::all_of(to.begin(), to.begin() + begin, is_untouched));
  EXPECT_TRUE(std::all_of(to.begin() + begin + size, to.end(), is_untouched));
}

TEST(StreamCopyTest, CopiesEveryByteAndNoOther) {
  constexpr size_t kLong = size_t{8} << 10;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, kLong - 1, kLong,
        kLong + 1, kLong + 63, kLong + 64, kLong + 127, 5 * kLong + 17}) {
    for (const size_t from_shift : {0, 1, 16, 63}) {
      for (const size_t to_shift : {0, 1, 16, 63}) {
        ExpectCopied(size, from_shift, to_shift);
      }
    }
  }
}

}  // namespace
}  // namespace msitd::libmsit
