// SPDX-License-Identifier: Apache-2.0
#include "client/msit/logits_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace msitd::msit {
namespace {

constexpr size_t kDigitsMax = 18;

constexpr std::string_view kLanguages[] = {"cpp", "go", "java", "js", "python"};

bool IsDigits(std::string_view part) {
  return !part.empty() && part.size() <= kDigitsMax &&
         std::all_of(part.begin(), part.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// Digits, with a sign if there is one.
std::optional<int64_t> NumberOf(std::string_view part) {
  std::string_view digits = part;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    digits.remove_prefix(1);
  }
  if (!IsDigits(digits)) return std::nullopt;
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return part[0] == '-' ? -number : number;
}

std::vector<std::string_view> PartsOf(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find('_'); end != std::string_view::npos;
       end = text.find('_')) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

LogitsName Wrong(std::string problem) {
  LogitsName name;
  name.problem = std::move(problem);
  name.order.kind = 2;
  name.order.number = std::numeric_limits<int64_t>::max();
  return name;
}

}  // namespace

LogitsName ParseLogitsName(std::string_view file_name) {
  const size_t dot = file_name.rfind('.');
  const bool has_extension = dot != std::string_view::npos && dot > 0;
  const std::vector<std::string_view> parts =
      PartsOf(has_extension ? file_name.substr(0, dot) : file_name);
  const auto language =
      std::find_first_of(parts.rbegin(), parts.rend(), std::begin(kLanguages),
                         std::end(kLanguages));
  LogitsName name;
  if (language == parts.rend()) {
    if (parts.size() < 2) return Wrong("invalid logits file name");
    const auto key = NumberOf(parts[parts.size() - 2]);
    const auto token = NumberOf(parts.back());
    if (!key.has_value() || !token.has_value()) {
      return Wrong(fmt::format("invalid_format_{}_{}", parts[parts.size() - 2],
                               parts.back()));
    }
    name.key = fmt::format("{}", *key);
    name.token = *token;
    name.order = {0, "", *key, *token};
    return name;
  }
  const auto token = std::find_if(parts.rbegin(), parts.rend(), IsDigits);
  const auto number =
      token == parts.rend()
          ? token
          : std::find_if(std::next(token), parts.rend(), IsDigits);
  if (number == parts.rend()) {
    return Wrong(fmt::format("missing_digits_after_{}", *language));
  }
  name.key = fmt::format("{}/{}", *language, *number);
  name.token = *NumberOf(*token);
  name.order = {1, std::string(*language), *NumberOf(*number), name.token};
  return name;
}

}  // namespace msitd::msit
