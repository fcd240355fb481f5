// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/verbs.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/text/text.h"

namespace msitd::ctl {

Outcome ReportDeleted(Invocation& invocation, std::string_view what,
                      std::string_view name) {
  switch (invocation.options().format) {
    case Format::kTable:
      fmt::print(stderr, "deleted {} {}\n", what, Printable(name));
      break;
    case Format::kJson:
      invocation.out().Write("{}\n");
      break;
    case Format::kName:
      invocation.out().Write(Printable(name) + '\n');
      break;
    case Format::kCsv:
      break;
  }
  return {};
}

}  // namespace msitd::ctl
