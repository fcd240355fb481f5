// SPDX-License-Identifier: Apache-2.0
#include "protos/text/size_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include "protos/status/status.h"

namespace msitd::text {
namespace {

// Returns the power of 1024 for a unit; negative if it is not a unit.
int PowerOf(std::string_view unit) {
  std::string lower(unit);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower.empty() || lower == "b") return 0;
  constexpr std::string_view kLetters = "kmgtp";
  const size_t power = kLetters.find(lower.front());
  const std::string_view rest = std::string_view(lower).substr(1);
  const bool is_unit =
      rest.empty() || rest == "b" || rest == "i" || rest == "ib";
  return power == std::string_view::npos || !is_unit
             ? -1
             : static_cast<int>(power) + 1;
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto bad = [text] {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not a size such as 4096, 512MB or 1.5GiB",
                      text);
  };
  double number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] =
      std::from_chars(begin, end, number, std::chars_format::fixed);
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const int power = PowerOf(unit);
  if (error != std::errc() || !std::isfinite(number) || number < 0 ||
      text.starts_with('-') || power < 0) {
    return bad();
  }
  int64_t whole = 0;
  const auto [whole_stop, whole_error] = std::from_chars(begin, stop, whole);
  const int64_t factor = int64_t{1} << (10 * power);
  const bool is_exact = whole_error == std::errc() && whole_stop == stop;
  const bool fits =
      is_exact ? whole <= kMax / factor
               : std::ldexp(number, 10 * power) < static_cast<double>(kMax);
  if (!fits) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is more than {} bytes", text, kMax);
  }
  return is_exact ? whole * factor
                  : static_cast<int64_t>(std::ldexp(number, 10 * power));
}

}  // namespace msitd::text
