// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flag/whole_number.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "client/text/text.h"

namespace msitd::ctl {
namespace {

constexpr size_t kShownBytesMax = 40;

std::string Check(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number >= 0) return "";
  const std::string shown =
      text.size() <= kShownBytesMax
          ? text
          : fmt::format("{}...", text.substr(0, kShownBytesMax));
  return fmt::format("\"{}\" is no whole number from 0 to {}", Printable(shown),
                     INT64_MAX);
}

}  // namespace

CLI::Validator WholeNumber() { return CLI::Validator(Check, ""); }

}  // namespace msitd::ctl
