// SPDX-License-Identifier: Apache-2.0
#include "protos/text/nearest.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace msitd::text {
namespace {

constexpr size_t kWordBytesMax = 128;
constexpr size_t kFar = 1000;

// Shorter prefixes match too many words.
constexpr size_t kBeginningBytesMin = 2;

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Returns the optimal string alignment distance: the number of letters to
// change, delete, insert, or swap with their neighbor. Uses dynamic programming
// over prefixes, with three rows at a time.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      const bool is_swap =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Returns true for `ls` and `list`: the letters of `text` occur in order in
// `word`, and the first letters are the same.
bool IsAbbreviation(std::string_view text, std::string_view word) {
  if (text.size() < kBeginningBytesMin || word.empty() ||
      text.front() != word.front()) {
    return false;
  }
  size_t at = 0;
  for (const char c : word) {
    if (at < text.size() && text[at] == c) ++at;
  }
  return at == text.size();
}

// Returns the distance of `word` from the typed text: 0 for equal words, kFar
// for unrelated ones.
size_t Cost(const std::string& typed, const std::string& word) {
  const size_t distance = Distance(typed, word);
  // More than a third of the letters make another word.
  if (distance <= (std::max(typed.size(), word.size()) + 1) / 3 &&
      distance < std::min(typed.size(), word.size())) {
    return distance;
  }
  const auto& [shorter, longer] = typed.size() < word.size()
                                      ? std::tie(typed, word)
                                      : std::tie(word, typed);
  if (shorter.size() >= kBeginningBytesMin && longer.starts_with(shorter)) {
    return longer.size() - shorter.size() + 1;
  }
  return IsAbbreviation(typed, word) ? word.size() : kFar;
}

}  // namespace

std::string Nearest(std::string_view word, std::span<const std::string> words) {
  if (word.size() > kWordBytesMax) return {};
  const std::string typed = Lower(word);
  const std::string* nearest = nullptr;
  size_t least = kFar;
  for (const std::string& candidate : words) {
    if (candidate.size() > kWordBytesMax) continue;
    const size_t cost = Cost(typed, Lower(candidate));
    if (cost >= least) continue;
    least = cost;
    nearest = &candidate;
  }
  return nearest == nullptr ? std::string() : *nearest;
}

}  // namespace msitd::text
