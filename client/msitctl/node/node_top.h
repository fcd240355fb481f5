// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

struct TopFlags {
  std::chrono::milliseconds interval{2000};
  bool once = false;
};

// Shows the activity of each stream, as the difference of two polls. On a
// terminal the table is updated in place; otherwise, tables are printed one
// after another.
ask::Outcome ShowTop(Invocation& invocation, const TopFlags& flags);

}  // namespace msitd::msitctl
