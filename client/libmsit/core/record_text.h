// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msitd::libmsit {

// Shortens texts that exceed the limits in limits.h. Both functions return
// `text`, or the shortened text in `shortened`.

// Cuts a value at a character boundary. An ellipsis is followed by the original
// length and by a hash of the whole value, so that values with the same
// beginning stay different: `(2000 bytes, hash 00c1d2e3f4051627)`.
std::string_view FitValue(std::string_view text, std::string& shortened);

// Omits the outermost frames, which are the last lines. The new last line
// states how many: an ellipsis and `12 frames`.
std::string_view FitStack(std::string_view text, std::string& shortened);

}  // namespace msitd::libmsit
