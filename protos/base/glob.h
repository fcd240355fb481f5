// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd {

// True if the whole `text` matches `pattern`. `*` matches any number of bytes,
// including none; `?` matches one byte. There are no escapes and no character
// classes, because op names contain brackets. Takes at most pattern.size() *
// text.size() steps.
bool GlobMatch(std::string_view pattern, std::string_view text);

// As above. Adds the number of steps to `step_count`.
bool GlobMatch(std::string_view pattern, std::string_view text,
               uint64_t& step_count);

}  // namespace msitd
