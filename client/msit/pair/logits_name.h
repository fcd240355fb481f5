// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::msit_command {

// What the name of a file with logits says.
struct LogitsName {
  // "7", or a language and the digits of the name: "python/007".
  std::string key;
  int64_t token = 0;
  // Why the name says nothing, in msit's words; empty if it does.
  std::string problem;

  // The order of msit's report: keys that are numbers, those with a language,
  // names that say nothing.
  struct Order {
    int kind = 0;
    std::string language;
    int64_t number = 0;
    int64_t token = 0;
    auto operator<=>(const Order&) const = default;
  };
  Order order;
};

// Reads the name of a file, without its folder: its extension does not count,
// its parts are between `_`. With a language (cpp, go, java, js, python) among
// the parts the last two parts of digits are the number of the case and the
// token; without one the last two parts are. Numbers fit into an int64_t.
LogitsName ParseLogitsName(std::string_view file_name);

}  // namespace msitd::msit_command
