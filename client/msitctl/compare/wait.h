// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/ask/text/conclusion.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

// Waits for a comparison, and converts its end to the outcome of a command.
namespace msitd::msitctl {

// The treatment of a comparison when an interrupt or --timeout ends the wait.
enum class IfWaitEnds { kCancel, kLeave };

// Waits until `comparison` is finished, and keeps it up to date. If the wait is
// ended, the error states whether the comparison continues.
ask::Outcome WaitForComparison(Invocation& invocation, IfWaitEnds if_wait_ends,
                               v1::Comparison& comparison);

// Cancels with a separate deadline, because the cause of `outcome` has ended
// all other calls.
ask::Outcome CancelAfter(ask::Outcome outcome, Invocation& invocation,
                         const std::string& name);

bool IsTimeout(const ask::Outcome& outcome);
ask::Outcome OutOfTime(const std::string& name);

// Adds to the outcome of a wait for `comparison` whether the comparison
// continues.
ask::Outcome TellWhetherItGoesOn(ask::Outcome outcome,
                                 const v1::Comparison& comparison);

// Returns the outcome of a command whose comparison is finished: a failure if
// it does not pass, was cancelled or failed itself.
ask::Outcome OutcomeOf(const v1::Comparison& comparison, ask::Allowed allowed);

}  // namespace msitd::msitctl
