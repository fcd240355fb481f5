// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/nearest.h"

#include "client/ask/text/text.h"

namespace msitd::ask {

std::string DidYouMean(std::string_view word,
                       std::span<const std::string> words) {
  const std::string nearest = Nearest(word, words);
  return nearest.empty() ? nearest
                         : "; did you mean " + Printable(nearest) + "?";
}

}  // namespace msitd::ask
