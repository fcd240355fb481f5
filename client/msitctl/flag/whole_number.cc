// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/whole_number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "client/ask/text/text.h"
#include "protos/status/status.h"
#include "protos/text/size_text.h"

namespace msitd::msitctl {
namespace {

constexpr size_t kShownBytesMax = 40;

std::string Shown(const std::string& text) {
  return ask::Printable(text.size() <= kShownBytesMax
                            ? text
                            : text.substr(0, kShownBytesMax) + "...");
}

// Returns true if `text` consists of one number of this type.
template <typename Number>
bool Read(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string CheckWhole(const std::string& text, int64_t min, int64_t max) {
  int64_t number = 0;
  if (Read(text, number) && number >= min && number <= max) return "";
  return fmt::format("\"{}\" is not a whole number from {} to {}", Shown(text),
                     min, max);
}

std::string CheckReal(const std::string& text) {
  double number = 0;
  if (Read(text, number) && std::isfinite(number)) return "";
  return fmt::format("\"{}\" is not a number such as -1.5 or 1e-3",
                     Shown(text));
}

std::string ToBytes(std::string& text) {
  const absl::StatusOr<int64_t> size =
      text::ParseSize(std::string_view(text).substr(0, kShownBytesMax));
  if (!size.ok()) return ask::Printable(Message(size.status()));
  text = fmt::format("{}", *size);
  return "";
}

}  // namespace

CLI::Validator WholeNumber(int64_t min, int64_t max) {
  return CLI::Validator(
      [min, max](const std::string& text) {
        return CheckWhole(text, min, max);
      },
      "");
}

CLI::Validator SizeValue() { return CLI::Validator(ToBytes, ""); }

CLI::Validator RealNumber() {
  return CLI::Validator([](const std::string& text) { return CheckReal(text); },
                        "");
}

}  // namespace msitd::msitctl
