// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::msit_command {

// The components of the name of a file with logits.
struct LogitsName {
  // "7", or a language and the digits of the name: "python/007".
  std::string key;
  int64_t token = 0;
  // Why the name cannot be parsed, in msit's words; empty if it can.
  std::string problem;

  // The order of msit's report: keys that are numbers, keys with a language,
  // names that cannot be parsed.
  struct Order {
    int kind = 0;
    std::string language;
    int64_t number = 0;
    int64_t token = 0;
    auto operator<=>(const Order&) const = default;
  };
  Order order;
};

// Parses the name of a file, without its folder. The extension is ignored, and
// `_` separates parts. If a part is a language (cpp, go, java, js, python), the
// last two parts of digits are the number of the case and the token; otherwise
// the last two parts are. Numbers must fit into an int64_t.
LogitsName ParseLogitsName(std::string_view file_name);

}  // namespace msitd::msit_command
