// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace msitd::text {

// Returns the one of `words` that is most similar to `word`: with different
// case, a few letters wrong, missing, added or swapped, a prefix, or an
// abbreviation. Empty if none is similar. Words longer than 128 bytes are never
// similar.
std::string Nearest(std::string_view word, std::span<const std::string> words);

}  // namespace msitd::text
