// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/alike_reason.h"

#include <algorithm>
#include <cstddef>

namespace msitd::ask {
namespace {

constexpr std::string_view kRun = "run ";
constexpr std::string_view kNumber = "N";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Bytes of a name. Those beyond ASCII are of one.
bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) ||
         c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Returns the length of the longest of `names` at the beginning of `text` after
// `run `.
size_t RunNameBytes(std::string_view text,
                    const std::vector<std::string>& names) {
  if (!text.starts_with(kRun)) return 0;
  size_t longest = 0;
  for (const std::string& name : names) {
    if (text.substr(kRun.size()).starts_with(name)) {
      longest = std::max(longest, name.size());
    }
  }
  return longest == 0 ? 0 : kRun.size() + longest;
}

// Returns the length of the number at `at` that is not part of a name; 0 if
// there is none.
size_t NumberBytes(std::string_view text, size_t at) {
  const auto joins = [](char c) {
    return IsNameByte(c) || c == '.' || c == '-' || c == '/';
  };
  if (!IsDigit(text[at]) || (at > 0 && joins(text[at - 1]))) return 0;
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  const bool has_fraction =
      end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1]);
  if (has_fraction) {
    for (++end; end < text.size() && IsDigit(text[end]); ++end) {
    }
  }
  const bool is_name =
      end < text.size() && (IsNameByte(text[end]) || text[end] == '/');
  return is_name ? 0 : end - at;
}

}  // namespace

std::string AlikeReason(std::string_view reason,
                        const std::vector<std::string>& run_names) {
  std::string out;
  for (size_t at = 0; at < reason.size();) {
    const size_t name = RunNameBytes(reason.substr(at), run_names);
    const size_t number = NumberBytes(reason, at);
    if (name > 0) {
      out += reason.substr(at, name);
    } else if (number > 0) {
      out += kNumber;
    } else {
      out += reason[at];
    }
    at += std::max({name, number, size_t{1}});
  }
  return out;
}

}  // namespace msitd::ask
