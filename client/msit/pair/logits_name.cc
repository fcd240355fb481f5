// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/logits_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "client/foreign/trees/json/numbers.h"

namespace msitd::msit_command {
namespace {

constexpr std::string_view kLanguages[] = {"cpp", "go", "java", "js", "python"};

bool IsWholeNumber(std::string_view part) {
  return trees::ParseNumber(part).has_value();
}

// Parses digits with an optional sign.
std::optional<int64_t> SignedNumber(std::string_view part) {
  const bool has_sign = part.starts_with('-') || part.starts_with('+');
  const auto number = trees::ParseNumber(part.substr(has_sign ? 1 : 0));
  return part.starts_with('-') && number.has_value() ? -*number : number;
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

LogitsName Unnamed(std::string problem) {
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
    if (parts.size() < 2) return Unnamed("invalid logits file name");
    const auto key = SignedNumber(parts[parts.size() - 2]);
    const auto token = SignedNumber(parts.back());
    if (!key.has_value() || !token.has_value()) {
      return Unnamed(fmt::format("invalid_format_{}_{}",
                                 parts[parts.size() - 2], parts.back()));
    }
    name.key = fmt::format("{}", *key);
    name.token = *token;
    name.order = {0, "", *key, *token};
    return name;
  }
  const auto token = std::find_if(parts.rbegin(), parts.rend(), IsWholeNumber);
  const auto number =
      token == parts.rend()
          ? token
          : std::find_if(std::next(token), parts.rend(), IsWholeNumber);
  if (number == parts.rend()) {
    return Unnamed(fmt::format("missing_digits_after_{}", *language));
  }
  name.key = fmt::format("{}/{}", *language, *number);
  name.token = *trees::ParseNumber(*token);
  name.order = {1, std::string(*language), *trees::ParseNumber(*number),
                name.token};
  return name;
}

}  // namespace msitd::msit_command
