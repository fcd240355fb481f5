// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

// What somebody meant who made a slip in a word.
namespace msitd::ctl {

// Returns the one of `words` that `word` is a slip of: other case, few letters
// wrong, missing, too many or swapped, a beginning or an abbreviation of it.
// Empty if none is near. Words of more than 128 bytes are near nothing.
std::string Nearest(std::string_view word, std::span<const std::string> words);

// Returns `; did you mean X?` with the nearest of `words`; empty without one.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> words);

}  // namespace msitd::ctl
