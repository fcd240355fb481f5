// SPDX-License-Identifier: Apache-2.0
#include "protos/base/glob.h"

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

}  // namespace msitd
