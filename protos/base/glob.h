// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msitd {

// True if the whole `text` matches `pattern`. `*` matches any number of bytes,
// including none; `?` matches one byte. There are no escapes and no character
// classes, because op names contain brackets. Takes at most pattern.size() *
// text.size() steps.
bool GlobMatch(std::string_view pattern, std::string_view text);

// As above. Adds the number of steps to `step_count`.
bool GlobMatch(std::string_view pattern, std::string_view text,
               uint64_t& step_count);

// As above. Sets `stars` to the parts of `text` that the `*` of the pattern
// match, in their order, each as short as possible from left to right. They
// refer to `text`.
bool GlobMatch(std::string_view pattern, std::string_view text,
               std::vector<std::string_view>& stars);

// Returns `text` with each `*` replaced by the next one of `stars`, of which
// there must be enough.
std::string FillStars(std::string_view text,
                      const std::vector<std::string_view>& stars);

}  // namespace msitd
