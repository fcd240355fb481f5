// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/one_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/ask/text/nearest.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"

namespace msitd::msitctl {
namespace {

// CLI11 appends the descriptions of the checks to the type of an option.
constexpr std::string_view kBegin = ":{";

std::string Check(const std::string& word,
                  const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return "";
  const std::vector<std::string> all_but_last(words.begin(), words.end() - 1);
  return fmt::format("\"{}\" is not {} or {}{}", ask::Printable(word),
                     fmt::join(all_but_last, ", "), words.back(),
                     ask::DidYouMean(word, words));
}

std::string Shown(const std::vector<std::string>& words) {
  return fmt::format("{{{}}}", fmt::join(words, "|"));
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> words) {
  const std::string shown = Shown(words);
  return CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        return Check(text, words);
      },
      shown);
}

CLI::Validator ListOf(std::vector<std::string> words) {
  const std::string shown = Shown(words);
  return CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        for (const std::string& word : ask::SplitLists({text})) {
          const std::string problem = Check(word, words);
          if (!problem.empty()) return problem;
        }
        return std::string();
      },
      shown);
}

CLI::Validator Offers(std::vector<std::string> words) {
  return CLI::Validator([](const std::string&) { return std::string(); },
                        Shown(words));
}

std::vector<std::string> WordsOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(kBegin);
  if (begin == std::string::npos) return {};
  const size_t first = begin + kBegin.size();
  return CLI::detail::split(type.substr(first, type.find('}') - first), '|');
}

std::string TypeOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(kBegin));
}

}  // namespace msitd::msitctl
