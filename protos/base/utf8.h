// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msitd {

// True if `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF).
bool IsValidUtf8(std::string_view text);

// Returns the longest prefix of at most `bytes_max` bytes of well-formed UTF-8
// that does not end within a character.
std::string_view Utf8Prefix(std::string_view text, size_t bytes_max);

}  // namespace msitd
