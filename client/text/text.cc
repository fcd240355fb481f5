// SPDX-License-Identifier: Apache-2.0
#include "client/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

#include "protos/base/utf8.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

struct CodePoint {
  char32_t value = 0;
  size_t size_bytes = 0;  // 0 for a byte that begins no character.
};

struct Interval {
  char32_t first;
  char32_t last;
};

// Takes no column.
constexpr Interval kCombining[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x0610, 0x061a},
    {0x064b, 0x065f}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a},   {0x0e47, 0x0e4e},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff},   {0x302a, 0x302d},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff},
};

// Takes two columns.
constexpr Interval kWide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x3029},   {0x302e, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x1f300, 0x1f3fa}, {0x1f400, 0x1f64f}, {0x1f680, 0x1f6ff},
    {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

// Invisible, or changes the order in which its neighbours are shown.
constexpr Interval kHidden[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0x00ad, 0x00ad},   {0x061c, 0x061c},
    {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

template <size_t n>
bool IsIn(const Interval (&table)[n], char32_t value) {
  return std::any_of(std::begin(table), std::end(table),
                     [value](const Interval& interval) {
                       return interval.first <= value && value <= interval.last;
                     });
}

CodePoint DecodeAt(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  size_t size = 1;
  char32_t value = lead;
  if (lead >= 0xf0) {
    size = 4;
    value = lead & 0x07;
  } else if (lead >= 0xe0) {
    size = 3;
    value = lead & 0x0f;
  } else if (lead >= 0x80) {
    size = 2;
    value = lead & 0x1f;
  }
  if (at + size > text.size() || !IsValidUtf8(text.substr(at, size))) return {};
  for (size_t i = 1; i < size; ++i) {
    value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3f);
  }
  return {value, size};
}

size_t WidthOf(char32_t value) {
  if (IsIn(kCombining, value)) return 0;
  return IsIn(kWide, value) ? 2 : 1;
}

std::string Escape(char32_t value) {
  switch (value) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return value < 0x80
                 ? fmt::format("\\x{:02x}", static_cast<uint32_t>(value))
                 : fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(value));
  }
}

// The longest prefix of at most `width` columns.
std::string_view Head(std::string_view text, size_t width) {
  size_t at = 0;
  size_t used = 0;
  while (at < text.size()) {
    const CodePoint point = DecodeAt(text, at);
    const size_t columns = point.size_bytes == 0 ? 1 : WidthOf(point.value);
    if (used + columns > width) break;
    used += columns;
    at += std::max<size_t>(point.size_bytes, 1);
  }
  return text.substr(0, at);
}

// The longest suffix of at most `width` columns.
std::string_view Tail(std::string_view text, size_t width) {
  size_t at = 0;
  size_t left = DisplayWidth(text);
  while (at < text.size() && left > width) {
    const CodePoint point = DecodeAt(text, at);
    left -= point.size_bytes == 0 ? 1 : WidthOf(point.value);
    at += std::max<size_t>(point.size_bytes, 1);
  }
  return text.substr(at);
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeAt(text, at);
    if (point.size_bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    if (IsIn(kHidden, point.value)) {
      out += Escape(point.value);
    } else {
      out += text.substr(at, point.size_bytes);
    }
    at += point.size_bytes;
  }
  return out;
}

size_t DisplayWidth(std::string_view printable) {
  size_t width = 0;
  for (size_t at = 0; at < printable.size();) {
    const CodePoint point = DecodeAt(printable, at);
    width += point.size_bytes == 0 ? 1 : WidthOf(point.value);
    at += std::max<size_t>(point.size_bytes, 1);
  }
  return width;
}

std::string Shorten(std::string_view printable, size_t width) {
  if (DisplayWidth(printable) <= width) return std::string(printable);
  if (width == 0) return {};
  const size_t tail = (width - 1) / 2;
  std::string out(Head(printable, width - 1 - tail));
  out += kEllipsis;
  out += Tail(printable, tail);
  return out;
}

std::string ShortenEnd(std::string_view printable, size_t width) {
  if (DisplayWidth(printable) <= width) return std::string(printable);
  if (width == 0) return {};
  std::string out(Head(printable, width - 1));
  return out += kEllipsis;
}

std::string HumanSize(int64_t size_bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(size_bytes);
  size_t unit = 0;
  // 1023.95 would be shown as 1024.0.
  while (std::abs(value) >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, kUnits[unit]);
}

std::string HumanDuration(double seconds) {
  if (seconds < 10) return fmt::format("{:.3g}s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) {
    return fmt::format("{}h{:02}m{:02}s", whole / 3600, whole / 60 % 60,
                       whole % 60);
  }
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

std::string GuardFormula(std::string text) {
  constexpr std::string_view kStarts = "=+-@\t\r";
  if (text.empty() || kStarts.find(text.front()) == std::string_view::npos) {
    return text;
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error != std::errc::invalid_argument && stop == end;
  return is_number ? text : '\'' + text;
}

}  // namespace msitd::ctl
