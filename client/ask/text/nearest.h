// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

// Guesses what somebody meant who mistyped a word.
namespace msitd::ask {

// Returns which of `words` was meant by `word`, a slip of it: other case, a few
// letters wrong, missing, too many or swapped, a beginning, or an abbreviation.
// Empty if none is near. Words of more than 128 bytes are near nothing.
std::string Nearest(std::string_view word, std::span<const std::string> words);

// Returns `; did you mean X?` with the nearest of `words`; empty without one.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> words);

}  // namespace msitd::ask
