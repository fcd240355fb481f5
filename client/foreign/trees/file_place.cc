// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/file_place.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

#include "client/foreign/trees/json/numbers.h"
#include "protos/base/limits.h"

namespace msitd::trees {
namespace {

constexpr std::array<std::string_view, 1> kRankWords = {"rank"};
// A longer word precedes the words that are its prefixes.
constexpr std::array<std::string_view, 4> kTokenWords = {"step", "iteration",
                                                         "iter", "token"};

// A word with its number, and their position.
struct NumberedWord {
  size_t begin = 0;
  size_t end = 0;
  int64_t number = 0;
};

bool IsOneOf(char c, std::string_view chars) {
  return chars.find(c) != std::string_view::npos;
}

bool StartsWithWord(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

// Parses a word of `words` and its number at `begin`.
template <size_t N>
std::optional<NumberedWord> ReadWordAt(
    std::string_view path, size_t begin,
    const std::array<std::string_view, N>& words, int64_t max) {
  for (const std::string_view word : words) {
    if (!StartsWithWord(path.substr(begin), word)) continue;
    size_t digits = begin + word.size();
    if (digits < path.size() && IsOneOf(path[digits], "_-=")) ++digits;
    const size_t end =
        std::min(path.find_first_not_of("0123456789", digits), path.size());
    if (end < path.size() && !IsOneOf(path[end], "/_-.")) continue;
    const auto number = ParseNumber(path.substr(digits, end - digits));
    if (number.has_value() && *number <= max) {
      return NumberedWord{begin, end, *number};
    }
  }
  return std::nullopt;
}

struct CutNumber {
  int64_t number = 0;
  bool begins_name = false;
};

// Removes the first such word from the path, with an adjacent separator.
template <size_t N>
std::optional<CutNumber> CutWord(std::string& path,
                                 const std::array<std::string_view, N>& words,
                                 std::string_view before, int64_t max) {
  for (size_t begin = 0; begin < path.size(); ++begin) {
    if (begin > 0 && !IsOneOf(path[begin - 1], before)) continue;
    const auto found = ReadWordAt(path, begin, words, max);
    if (!found.has_value()) continue;
    const bool is_last = found->end == path.size();
    // In `a_rank0/b`, the slash stays.
    const bool cuts_before =
        begin > 0 &&
        (is_last || (path[found->end] == '/' && path[begin - 1] != '/'));
    const bool begins_name = begin == 0 || path[begin - 1] == '/';
    const size_t first = cuts_before ? begin - 1 : begin;
    const size_t end = is_last || cuts_before ? found->end : found->end + 1;
    path.erase(first, end - first);
    return CutNumber{found->number, begins_name};
  }
  return std::nullopt;
}

}  // namespace

FilePlace ReadFilePlace(std::string_view path, bool reads_rank) {
  FilePlace out;
  out.op = path;
  if (reads_rank) {
    const auto rank = CutWord(out.op, kRankWords, "/_-.", kRankMax);
    out.rank = rank ? static_cast<int32_t>(rank->number) : 0;
    out.has_rank = rank.has_value();
    out.rank_begins_name = rank.has_value() && rank->begins_name;
  }
  const auto token = CutWord(out.op, kTokenWords, "/_-", kTokenMax);
  out.token = token ? token->number : 0;
  return out;
}

}  // namespace msitd::trees
