// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd {

// True if all of `text` matches `pattern`. `*` stands for any bytes or none,
// `?` for one byte. There are no escapes and no character classes: op names
// contain brackets. Takes at most pattern.size() * text.size() steps.
bool GlobMatch(std::string_view pattern, std::string_view text);

// The same, and adds the steps that it took to `step_count`.
bool GlobMatch(std::string_view pattern, std::string_view text,
               uint64_t& step_count);

}  // namespace msitd
