// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_messages.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/text.h"

namespace msitd::msitctl {

ask::Outcome ExecFailure(std::string message) {
  return {ask::kExitExecFailed, std::move(message)};
}

void ExecNote(const std::string& text) {
  fmt::print(stderr, "msitctl exec: {}\n", ask::Printable(text));
}

}  // namespace msitd::msitctl
