// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/numbers.h"

#include <algorithm>
#include <charconv>

#include "protos/base/digits.h"

namespace msitd::trees {
namespace {

std::string_view TakePart(std::string_view* text) {
  const size_t dot = std::min(text->find('.'), text->size());
  const std::string_view part = text->substr(0, dot);
  text->remove_prefix(std::min(dot + 1, text->size()));
  return part;
}

// Returns a number less than, equal to or greater than 0.
int ComparePart(std::string_view a, std::string_view b) {
  // Numbers precede texts. Otherwise, the order would have a cycle: 10 < 1x < 2
  // < 10.
  if (IsDigits(a) != IsDigits(b)) return IsDigits(a) ? -1 : 1;
  if (!IsDigits(a)) return a.compare(b);
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

}  // namespace

std::optional<int64_t> ParseNumber(std::string_view text) {
  if (!IsDigits(text)) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

bool NaturalLess(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    const int order = ComparePart(TakePart(&a), TakePart(&b));
    if (order != 0) return order < 0;
  }
  if (a.empty() != b.empty()) return a.empty();
  // For example 01 and 1, which are the same number.
  return whole_a < whole_b;
}

}  // namespace msitd::trees
