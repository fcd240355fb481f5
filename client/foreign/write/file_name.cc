// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/file_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "protos/base/summary.h"
#include "protos/chunk/chunk.h"

namespace msitd::write {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr std::string_view kCutMark = "~~";
// Hexadecimal digits of a hash.
constexpr size_t kHashDigits = 32;

// Names that older systems treat as devices, with any extension.
constexpr std::array<std::string_view, 4> kDevices = {"con", "prn", "aux",
                                                      "nul"};
constexpr std::array<std::string_view, 2> kNumberedDevices = {"com", "lpt"};

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

bool IsPlain(char c) {
  return IsUpper(c) || IsLower(c) || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

void AppendEscaped(char c, std::string& out) {
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 15];
}

bool IsDevice(std::string_view name) {
  std::string word(name.substr(0, name.find_first_of(".,")));
  for (char& c : word) c = static_cast<char>(std::tolower(c));
  if (std::find(kDevices.begin(), kDevices.end(), word) != kDevices.end()) {
    return true;
  }
  return word.size() == 4 && word[3] >= '0' && word[3] <= '9' &&
         std::find(kNumberedDevices.begin(), kNumberedDevices.end(),
                   word.substr(0, 3)) != kNumberedDevices.end();
}

// Returns a hexadecimal number that indicates which letters of `name` are upper
// case; empty if none are.
std::string CaseText(std::string_view name) {
  std::string digits;  // The lowest one first.
  unsigned digit = 0;
  int bit = 0;
  for (const char c : name) {
    if (!IsUpper(c) && !IsLower(c)) continue;
    digit |= static_cast<unsigned>(IsUpper(c)) << bit;
    if (++bit < 4) continue;
    digits += kHexDigits[digit];
    digit = 0;
    bit = 0;
  }
  digits += kHexDigits[digit];
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return {digits.rbegin(), digits.rend()};
}

std::string Joined(const std::vector<std::string_view>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += ',';
    for (const char c : parts[i]) {
      // A leading dot hides a file, and a leading dash begins an option.
      const bool is_odd = out.empty() && (c == '.' || c == '-');
      if (IsPlain(c) && !is_odd) {
        out += c;
      } else {
        AppendEscaped(c, out);
      }
    }
  }
  if (!IsDevice(out)) return out;
  std::string escaped;
  AppendEscaped(out[0], escaped);
  return escaped + out.substr(1);
}

std::string Cut(const std::string& name, std::string_view extension) {
  const std::string hash =
      HashText(chunk::HashBytes(std::as_bytes(std::span(name))));
  size_t size =
      kFileNameBytesMax - kCutMark.size() - hash.size() - extension.size();
  // Does not cut within the digits of an escaped byte.
  while (size > 0 &&
         (name[size - 1] == '%' || (size > 1 && name[size - 2] == '%'))) {
    --size;
  }
  return name.substr(0, size) + std::string(kCutMark) + hash;
}

}  // namespace

std::string FileName(const std::vector<std::string_view>& parts,
                     std::string_view extension) {
  std::string name = Joined(parts);
  // Escapes are in lower case, so they add letters but no bits.
  if (const std::string upper = CaseText(name); !upper.empty()) {
    name += '~';
    name += upper;
  }
  if (name.size() + extension.size() > kFileNameBytesMax) {
    name = Cut(name, extension);
  }
  name += extension;
  return name;
}

std::string FileNameAsIs(std::string_view name, std::string_view extension) {
  const bool is_plain =
      !name.empty() && name[0] != '.' &&
      name.size() + extension.size() <= kFileNameBytesMax &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return c > 0x20 && c < 0x7f && c != '/' && c != '\\' && c != '%';
      });
  if (!is_plain) return FileName({name}, extension);
  std::string out(name);
  out += extension;
  return out;
}

}  // namespace msitd::write
