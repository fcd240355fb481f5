// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msitd::client {

// Shortens texts that are longer than limits.h allows. Both return `text`, or
// what they made of it in `shortened`.

// Cuts a value at a character. Behind an ellipsis it says how long the value
// was, and gives a hash of all of it, so that values stay different that begin
// alike: `(2000 bytes, hash 00c1d2e3f4051627)`.
std::string_view FitValue(std::string_view text, std::string& shortened);

// Leaves out the outermost frames, which are the last lines, and says how many
// in a last line: an ellipsis and `12 frames`.
std::string_view FitStack(std::string_view text, std::string& shortened);

}  // namespace msitd::client
