// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_name.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace msitd::compare {

std::string FormatComparisonName(uint64_t id) {
  return fmt::format("c-{:06}", id);
}

std::optional<uint64_t> ParseComparisonName(std::string_view name) {
  if (!name.starts_with("c-")) return std::nullopt;
  uint64_t id = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 2, end, id);
  if (error != std::errc() || stop != end) return std::nullopt;
  // Each comparison has exactly one name; `c-1` is invalid.
  if (FormatComparisonName(id) != name) return std::nullopt;
  return id;
}

}  // namespace msitd::compare
