// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "client/ask/text/conclusion.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// How long the user waited for a comparison.
using Seconds = std::chrono::duration<double>;

struct HeaderStyle {
  bool color = false;
  size_t width = 0;  // Columns at which lines are broken; 0: nowhere.
};

// The style for the terminal of an invocation.
HeaderStyle StyleOf(const Invocation& invocation);

// Returns the lines above the rows of a table: the result in a sentence and an
// empty line, then runs, verdict, counts, first divergence, its cause, and the
// tolerances that would pass, one after a label each. Printable, apart from
// colors.
std::string VerdictHeader(const v1::Comparison& comparison, Seconds elapsed,
                          ask::Allowed allowed, HeaderStyle style);

}  // namespace msitd::msitctl
