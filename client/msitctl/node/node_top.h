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

// Shows what each stream does, by the difference of two looks: on a terminal
// again and again in place, otherwise one table behind the other.
ask::Outcome ShowTop(Invocation& invocation, const TopFlags& flags);

}  // namespace msitd::msitctl
