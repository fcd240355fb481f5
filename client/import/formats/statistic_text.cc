// SPDX-License-Identifier: Apache-2.0
#include "client/import/formats/statistic_text.h"

#include <algorithm>

#include "client/import/formats/format_limits.h"

namespace msitd::formats {
namespace {

bool TakeDigits(std::string_view& text) {
  const size_t end =
      std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

// True for a number as JSON has it.
bool IsNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (!TakeDigits(text)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!TakeDigits(text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!TakeDigits(text)) return false;
  }
  return text.empty();
}

}  // namespace

std::optional<std::string> StatisticText(std::string_view text) {
  // The C library prints the sign of a NaN.
  if (text == "-nan") text.remove_prefix(1);
  const bool is_named = text == "nan" || text == "inf" || text == "-inf";
  const bool fits = text.size() <= kStatisticTextBytesMax;
  if (!is_named && !(fits && IsNumber(text))) return std::nullopt;
  return std::string(text);
}

}  // namespace msitd::formats
