// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msitd {

// True if `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF).
bool IsValidUtf8(std::string_view text);

// Returns the first bytes of well-formed UTF-8, `bytes_max` at most, without a
// part of a character at the end.
std::string_view Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace msitd
