// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace msitd::ask {

// Breaks `text` between words so that no line is longer than `width` columns,
// unless a single word is. The first line begins at column `column`, the others
// are indented by `indent` spaces. Does not break anything if `width` is 0.
std::string Wrap(std::string_view text, size_t column, size_t indent,
                 size_t width);

}  // namespace msitd::ask
