// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/not_empty.h"

#include <string>

namespace msitd::msitctl {

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.find_first_not_of(", \t") == std::string::npos
                   ? std::string("the value is empty")
                   : std::string();
      },
      "");
}

}  // namespace msitd::msitctl
