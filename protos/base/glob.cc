// SPDX-License-Identifier: Apache-2.0
#include "protos/base/glob.h"

#include <algorithm>

namespace msitd {

bool GlobMatch(std::string_view pattern, std::string_view text) {
  uint64_t ignored = 0;
  return GlobMatch(pattern, text, ignored);
}

bool GlobMatch(std::string_view pattern, std::string_view text,
               uint64_t& step_count) {
  size_t p = 0;
  size_t t = 0;
  // Where to go on after a mismatch: in the pattern behind the last star, which
  // then takes one more byte of the text. Earlier stars need no second try, so
  // the steps are bounded by the product of the lengths.
  size_t after_star = std::string_view::npos;
  size_t retry = 0;
  for (; t < text.size(); ++step_count) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      retry = t;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool GlobMatch(std::string_view pattern, std::string_view text,
               std::vector<std::string_view>& stars) {
  stars.clear();
  if (!GlobMatch(pattern, text)) return false;
  // The text before the first star and after the last one is fixed. Each piece
  // between two stars is at its first position after the previous piece, which
  // GlobMatch proves to exist.
  const size_t first = std::min(pattern.find('*'), pattern.size());
  pattern.remove_prefix(first);
  text.remove_prefix(first);
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const size_t next = pattern.find('*');
    const std::string_view piece = pattern.substr(0, next);
    size_t begin = 0;
    if (next == std::string_view::npos) {
      begin = text.size() - piece.size();
    } else {
      while (!GlobMatch(piece, text.substr(begin, piece.size()))) ++begin;
    }
    stars.push_back(text.substr(0, begin));
    text.remove_prefix(begin + piece.size());
    pattern.remove_prefix(piece.size());
  }
  return true;
}

std::string FillStars(std::string_view text,
                      const std::vector<std::string_view>& stars) {
  std::string out;
  size_t next = 0;
  for (const char c : text) {
    if (c == '*') {
      out += stars[next++];
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace msitd
