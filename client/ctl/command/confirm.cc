// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/confirm.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "client/text/text.h"

namespace msitd::ctl {

Outcome Confirm(const Terminal& terminal, std::string_view question) {
  if (!terminal.stdin_is_terminal || !terminal.stderr_is_terminal) {
    return UsageError("no terminal to ask on; give --yes to delete");
  }
  fmt::print(stderr, "{} [y/N] ", Printable(question));
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return LocalError("nothing was deleted");
}

}  // namespace msitd::ctl
