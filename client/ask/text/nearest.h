// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "protos/text/nearest.h"

// Suggests a word for a mistyped one.
namespace msitd::ask {

using text::Nearest;

// Returns `; did you mean X?` with the nearest of `words`; empty without one.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> words);

}  // namespace msitd::ask
