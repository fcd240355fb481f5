// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/verbs.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/ask/text/text.h"

namespace msitd::msitctl {

ask::Outcome ReportDeleted(Invocation& invocation, std::string_view what,
                           std::string_view name) {
  switch (invocation.options().format) {
    case ask::Format::kTable:
      fmt::print(stderr, "deleted {} {}\n", what, ask::Printable(name));
      break;
    case ask::Format::kJson:
      invocation.out().Write("{}\n");
      break;
    case ask::Format::kName:
      invocation.out().Write(ask::Printable(name) + '\n');
      break;
    case ask::Format::kCsv:
      break;
  }
  return {};
}

}  // namespace msitd::msitctl
