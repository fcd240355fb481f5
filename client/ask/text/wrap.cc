// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/wrap.h"

#include <algorithm>

#include "client/ask/text/text.h"

namespace msitd::ask {

std::string Wrap(std::string_view text, size_t column, size_t indent,
                 size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, length);
    const size_t columns = DisplayWidth(word);
    const bool is_first = out.empty() || out.back() == ' ';
    if (!is_first && column + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return out;
}

}  // namespace msitd::ask
