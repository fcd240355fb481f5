// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// True if `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF).
bool IsValidUtf8(std::string_view text);

}  // namespace msitd
