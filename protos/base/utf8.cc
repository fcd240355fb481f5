// SPDX-License-Identifier: Apache-2.0
#include "protos/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace msitd {
namespace {

// Returns a length of ASCII characters with which the text begins, which is at
// most 7 less than their number.
size_t AsciiPrefixBytes(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  uint64_t bytes = 0;
  size_t begin = 0;
  for (; begin + sizeof(bytes) <= text.size(); begin += sizeof(bytes)) {
    std::memcpy(&bytes, text.data() + begin, sizeof(bytes));
    if ((bytes & kHighBits) != 0) break;
  }
  return begin;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  const auto byte = [text](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const auto is_tail = [&](size_t i) {
    return i < text.size() && (byte(i) & 0xc0) == 0x80;
  };
  size_t i = AsciiPrefixBytes(text);
  while (i < text.size()) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      i += 1;
    } else if (lead >= 0xc2 && lead <= 0xdf) {
      if (!is_tail(i + 1)) return false;
      i += 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      if (!is_tail(i + 1) || !is_tail(i + 2)) return false;
      if (lead == 0xe0 && byte(i + 1) < 0xa0) return false;
      if (lead == 0xed && byte(i + 1) > 0x9f) return false;
      i += 3;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      if (!is_tail(i + 1) || !is_tail(i + 2) || !is_tail(i + 3)) return false;
      if (lead == 0xf0 && byte(i + 1) < 0x90) return false;
      if (lead == 0xf4 && byte(i + 1) > 0x8f) return false;
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

std::string_view Utf8Prefix(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

}  // namespace msitd
