// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/record_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

// 64-bit FNV-1a as hexadecimal digits. It needs no library, and collisions are
// of no use to an attacker.
std::string HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  std::string out(16, '0');
  for (size_t i = out.size(); i-- > 0; hash >>= 4) {
    out[i] = "0123456789abcdef"[hash & 15];
  }
  return out;
}

}  // namespace

std::string_view FitValue(std::string_view text, std::string& shortened) {
  if (text.size() <= kValueBytesMax) return text;
  const std::string end = "\u2026 (" + std::to_string(text.size()) +
                          " bytes, hash " + HashOf(text) + ")";
  size_t cut = kValueBytesMax - end.size();
  // Does not cut inside a character.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) {
    --cut;
  }
  shortened = std::string(text.substr(0, cut)) + end;
  return shortened;
}

std::string_view FitStack(std::string_view text, std::string& shortened) {
  if (text.size() <= kStackBytesMax) return text;
  // Longer than any last line.
  constexpr size_t kLastLineMax = 40;
  size_t cut = text.rfind('\n', kStackBytesMax - kLastLineMax);
  cut = cut == std::string_view::npos ? 0 : cut + 1;
  const std::string_view left_out = text.substr(cut);
  auto frame_count = std::count(left_out.begin(), left_out.end(), '\n');
  if (left_out.back() != '\n') ++frame_count;
  shortened = std::string(text.substr(0, cut)) + "\u2026 " +
              std::to_string(frame_count) + " frames";
  return shortened;
}

}  // namespace msitd::libmsit
