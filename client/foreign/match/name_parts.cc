// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/name_parts.h"

#include <algorithm>
#include <utility>

namespace msitd::match {

NameParts::NameParts(std::vector<std::string_view> names)
    : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  if (!names_.empty() && names_.front().empty()) names_.erase(names_.begin());
}

bool NameParts::Has(std::string_view name) const {
  return std::binary_search(names_.begin(), names_.end(), name);
}

template <typename Take>
void NameParts::ForEachPrefix(std::string_view text, const Take& take) const {
  // The names that begin with the first characters of the text. The name that
  // ends at a position is the first of them.
  auto begin = names_.begin();
  auto end = names_.end();
  for (size_t at = 0; at < text.size() && begin != end; ++at) {
    const auto next = static_cast<unsigned char>(text[at]);
    begin = std::lower_bound(
        begin, end, next, [at](std::string_view name, unsigned char byte) {
          return name.size() <= at ||
                 static_cast<unsigned char>(name[at]) < byte;
        });
    end = std::upper_bound(begin, end, next,
                           [at](unsigned char byte, std::string_view name) {
                             return byte < static_cast<unsigned char>(name[at]);
                           });
    if (begin != end && begin->size() == at + 1) take(at + 1);
  }
}

size_t NameParts::LongestPrefix(std::string_view text) const {
  size_t longest = 0;
  ForEachPrefix(text, [&longest](size_t size) { longest = size; });
  return longest;
}

std::vector<std::string_view> NameParts::Split(std::string_view text) const {
  if (Has(text)) return {text};
  // The length of the first name of the text from each position on; 0 if that
  // text does not consist of names.
  std::vector<size_t> sizes(text.size());
  for (size_t at = text.size(); at-- > 0;) {
    ForEachPrefix(text.substr(at), [&](size_t size) {
      const size_t rest = at + size;
      if (rest == text.size() || sizes[rest] != 0) sizes[at] = size;
    });
  }
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size(); at += sizes[at]) {
    if (sizes[at] == 0) return {};
    out.push_back(text.substr(at, sizes[at]));
  }
  return out;
}

}  // namespace msitd::match
