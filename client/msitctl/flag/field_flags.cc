// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/field_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "client/ask/text/nearest.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Precedes the valid names in an error about an unknown name.
constexpr std::string_view kNames = "; expected one of ";
constexpr std::string_view kPredicate = "predicate, ";

// There are many names, so the error lists only the nearest.
std::string WithNearestName(const std::string& error) {
  const size_t list = error.find(kNames);
  if (list == std::string::npos) return error;
  const size_t close = error.rfind('"', list);
  const size_t open = close == std::string::npos || close == 0
                          ? std::string::npos
                          : error.rfind('"', close - 1);
  std::string meant;
  if (open != std::string::npos) {
    meant =
        ask::DidYouMean(error.substr(open + 1, close - open - 1),
                        ask::SplitLists({error.substr(list + kNames.size())}));
  }
  return error.substr(0, list) +
         (meant.empty() ? "; see msitctl node capabilities -o name" : meant);
}

// Parses the index of `field[3]` at `begin` of `text`; nothing if there is
// none. `end` is set to the position after the field and its sub-fields.
std::optional<size_t> IndexAt(std::string_view text, size_t begin,
                              std::string_view field, size_t& end) {
  std::string_view rest = text.substr(begin + field.size());
  size_t index = 0;
  if (rest.starts_with('[')) {
    const auto [stop, error] =
        std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
    if (error != std::errc()) return std::nullopt;
  }
  end = text.find(": ", begin);
  if (end == std::string_view::npos) return std::nullopt;
  return index;
}

bool IsNumber(std::string_view text) {
  double number = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size();
}

std::string Replaced(std::string_view text, std::string_view from,
                     std::string_view to) {
  std::string out(text);
  for (size_t at = out.find(from); at != std::string::npos;
       at = out.find(from, at + to.size())) {
    out.replace(at, from.size(), to);
  }
  return out;
}

}  // namespace

std::string FlagText(std::string_view flag, std::string_view value) {
  return fmt::format("{} '{}'", flag, value);
}

std::string ToleranceHint(std::string_view text) {
  const size_t colon = text.rfind(": ");
  if (colon != std::string_view::npos) text = text.substr(colon + 2);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (IsNumber(text)) {
    return fmt::format(
        "; write a bound as 'nl2 <= {0}', a tolerance as 'rtol={0}'", text);
  }
  if (ask::ParsePreset(text).ok()) {
    return fmt::format("; write @{} for the preset", text);
  }
  for (const std::string_view name : {"rtol", "atol"}) {
    if (!text.starts_with(name) || text.starts_with(std::string(name) + "=")) {
      continue;
    }
    std::string_view rest = text.substr(name.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" =<"), rest.size()));
    rest = rest.substr(0, rest.find(' '));
    if (IsNumber(rest)) return fmt::format("; write {}={}", name, rest);
  }
  for (const auto& [wrong, right] :
       {std::pair("=<", "<="), std::pair("=>", ">=")}) {
    if (text.find(wrong) == std::string_view::npos) continue;
    return fmt::format("; write '{}'", Replaced(text, wrong, right));
  }
  return {};
}

ask::Outcome ErrorOfFlag(ask::Outcome outcome,
                         std::span<const FieldFlags> fields) {
  if (outcome.exit_code !=
      ask::ExitCodeOf(grpc::StatusCode::INVALID_ARGUMENT)) {
    return outcome;
  }
  for (const FieldFlags& known : fields) {
    const size_t begin = outcome.error.find(known.field);
    if (begin == std::string::npos) continue;
    size_t end = 0;
    const std::optional<size_t> index =
        IndexAt(outcome.error, begin, known.field, end);
    if (!index.has_value() || *index >= known.flags.size()) continue;
    const std::string& flag = known.flags[*index];
    std::string problem = WithNearestName(outcome.error.substr(end + 2));
    if (problem.starts_with(kPredicate)) problem.erase(0, kPredicate.size());
    const size_t quote = flag.find('\'');
    const std::string hint = quote == std::string::npos
                                 ? std::string()
                                 : ToleranceHint(std::string_view(flag).substr(
                                       quote + 1, flag.size() - quote - 2));
    return ask::UsageError(fmt::format("{}: {}{}", flag, problem, hint));
  }
  return outcome;
}

}  // namespace msitd::msitctl
