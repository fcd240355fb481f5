// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/quantity.h"

#include <charconv>
#include <chrono>
#include <system_error>

#include "protos/status/status.h"
#include "protos/text/duration_text.h"
#include "protos/text/size_text.h"

namespace msitd::config {

Unit UnitOf(std::string_view key) {
  if (key.find("_bytes") != std::string_view::npos) return Unit::kBytes;
  if (key.ends_with("_ms")) return Unit::kMilliseconds;
  if (key.ends_with("_s") && !key.ends_with("_per_s")) return Unit::kSeconds;
  return Unit::kNone;
}

absl::StatusOr<int64_t> ParseQuantity(std::string_view text, Unit unit) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (!text.empty() && error == std::errc() && stop == end) return number;
  if (unit == Unit::kNone) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "'{}' is not an integer", text);
  }
  if (unit == Unit::kBytes) return text::ParseSize(text);
  MSITD_ASSIGN_OR_RETURN(const std::chrono::milliseconds duration,
                         text::ParseDuration(text));
  if (unit == Unit::kMilliseconds) return duration.count();
  constexpr int64_t kMsPerS = 1000;
  if (duration.count() % kMsPerS != 0) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "'{}' is not a whole number of seconds", text);
  }
  return duration.count() / kMsPerS;
}

}  // namespace msitd::config
