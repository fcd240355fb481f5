// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/confirm.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "client/ask/text/text.h"

namespace msitd::msitctl {

ask::Outcome Confirm(const ask::Terminal& terminal, std::string_view question) {
  if (!terminal.stdin_is_terminal || !terminal.stderr_is_terminal) {
    return ask::UsageError(
        "cannot ask for confirmation without a terminal; to delete, use --yes");
  }
  fmt::print(stderr, "{} [y/N] ", ask::Printable(question));
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return ask::LocalError("nothing was deleted");
}

}  // namespace msitd::msitctl
