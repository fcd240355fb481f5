// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/call_order.h"

#include <algorithm>
#include <cstddef>

namespace msitd::names {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes and returns the leading digits, or otherwise the text before the next
// digit.
std::string_view CutRun(std::string_view& text) {
  const bool is_number = IsDigit(text.front());
  const auto* const end =
      std::find_if(text.begin(), text.end(),
                   [is_number](char c) { return IsDigit(c) != is_number; });
  const auto size = static_cast<size_t>(end - text.begin());
  const std::string_view run = text.substr(0, size);
  text.remove_prefix(size);
  return run;
}

int CompareNumbers(std::string_view a, std::string_view b) {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string_view CutPart(std::string_view& text) {
  const size_t end = std::min(text.find_first_of("./"), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

int CompareNatural(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view run_a = CutRun(a);
    const std::string_view run_b = CutRun(b);
    const bool are_numbers = IsDigit(run_a.front()) && IsDigit(run_b.front());
    const int order =
        are_numbers ? CompareNumbers(run_a, run_b) : run_a.compare(run_b);
    if (order != 0) return order;
  }
  if (a.empty() == b.empty()) return 0;
  return a.empty() ? -1 : 1;
}

bool EndsBefore(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    const int order = CompareNatural(CutPart(a), CutPart(b));
    if (order != 0) return order < 0;
  }
  if (a.empty() != b.empty()) return b.empty();
  return whole_a < whole_b;
}

}  // namespace msitd::names
