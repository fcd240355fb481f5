// SPDX-License-Identifier: Apache-2.0
#include "protos/text/duration_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::text {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the milliseconds of a unit of time; 0 if `unit` is not one.
double UnitMs(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1},     {"s", 1e3},         {"m", 60e3},
      {"h", 3600e3}, {"d", 24 * 3600e3}, {"w", 7 * 24 * 3600e3}};
  for (const auto& [name, ms] : kUnits) {
    if (name == unit) return ms;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  constexpr double kYearMs = 366 * 24 * 3600e3;
  double sum_ms = 0;
  double unit_before_ms = kInfinity;
  const char* at = text.data();
  const char* const end = at + text.size();
  do {
    double number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    const char* unit_end = stop;
    while (unit_end != end && *unit_end >= 'a' && *unit_end <= 'z') ++unit_end;
    const bool is_bare = stop == end && at == text.data();
    const double unit_ms =
        is_bare ? 1000 : UnitMs({stop, static_cast<size_t>(unit_end - stop)});
    const bool is_part = error == std::errc() && number >= 0 && unit_ms > 0 &&
                         unit_ms < unit_before_ms;
    sum_ms = is_part ? sum_ms + number * unit_ms : kInfinity;
    unit_before_ms = unit_ms;
    at = unit_end;
  } while (at != end && std::isfinite(sum_ms));
  if (!std::isfinite(sum_ms) || sum_ms < 1 || sum_ms > kYearMs) {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument,
        "\"{}\" is not a duration such as 500ms, 30s, 2m, 1h or 2d12h", text);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(sum_ms));
}

}  // namespace msitd::text
