// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/match/mapping.h"
#include "client/msitctl/compare/compare_flags.h"
#include "client/msitctl/compare/execution_plan.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Adds to a plan what the mapping of two engines relies on, unless the user has
// specified it. Ranks that share a layer need layouts. Runs with different rows
// are compared by request if both recorded their requests. Shapes that differ
// only in dimensions of length 1 are squeezed. `has_ranks`: the user specified
// layouts or ranks. Prints a note for each, with the flags that mean
// the same.
//
// Errors: those of the daemon.
ask::Outcome RelyOnMapping(Invocation& invocation, const CompareFlags& flags,
                           const match::Mapping& mapping, bool has_ranks,
                           ExecutionPlan& plan);

}  // namespace msitd::msitctl
