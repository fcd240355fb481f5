// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msitd {

// True if all of `text` matches `pattern`, in which `*` stands for any bytes,
// none included, and `?` for one byte. There are no escapes and no character
// classes: op names contain brackets. Takes at most
// pattern.size() * text.size() steps.
bool GlobMatch(std::string_view pattern, std::string_view text);

// How many bytes of `pattern` stand before its first wildcard: what it matches
// begins with them.
inline size_t LiteralPrefix(std::string_view pattern) {
  const size_t wildcard = pattern.find_first_of("*?");
  return wildcard == std::string_view::npos ? pattern.size() : wildcard;
}

}  // namespace msitd
