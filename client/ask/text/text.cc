// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

#include "absl/strings/str_replace.h"

namespace msitd::ask {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

struct CodePoint {
  utf8proc_int32_t value = 0;
  size_t size_bytes = 0;  // 0 for a byte that does not start a character.
};

CodePoint DecodeAt(std::string_view text, size_t at) {
  CodePoint out;
  const auto* const bytes =
      reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const utf8proc_ssize_t size = utf8proc_iterate(
      bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &out.value);
  out.size_bytes = size > 0 ? static_cast<size_t>(size) : 0;
  return out;
}

// Returns true for characters that are invisible or change the order of their
// neighbors.
bool IsHidden(utf8proc_int32_t value) {
  switch (utf8proc_category(value)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    // Terminals treat unassigned code points differently.
    case UTF8PROC_CATEGORY_CN:
      return true;
    default:
      return false;
  }
}

size_t WidthOf(utf8proc_int32_t value) {
  // No width is negative; this only guards the conversion.
  return static_cast<size_t>(std::max(utf8proc_charwidth(value), 0));
}

std::string Escape(utf8proc_int32_t value) {
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

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return '"' + absl::StrReplaceAll(text, {{"\"", "\"\""}}) + '"';
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
    if (IsHidden(point.value)) {
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

std::string CsvLine(const std::vector<std::string>& fields,
                    bool guards_formulas) {
  std::string line;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) line += ',';
    line += guards_formulas ? CsvField(GuardFormula(field)) : CsvField(field);
  }
  return line + '\n';
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

}  // namespace msitd::ask
