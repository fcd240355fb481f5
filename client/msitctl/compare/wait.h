// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/ask/text/conclusion.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

// Waiting for a comparison, and what its end is to the caller of a command.
namespace msitd::msitctl {

bool IsOver(const v1::Comparison& comparison);

// What becomes of a comparison that an interrupt or --timeout does not let
// somebody wait for.
enum class IfWaitEnds { kCancel, kLeave };

// Waits until `comparison` is over, and keeps it up to date. The error of a
// wait that ended says what becomes of the comparison.
ask::Outcome WaitForComparison(Invocation& invocation, IfWaitEnds if_wait_ends,
                               v1::Comparison& comparison);

// Cancels with a deadline of its own: whatever ended `outcome` has ended all
// others.
ask::Outcome CancelAfter(ask::Outcome outcome, Invocation& invocation,
                         const std::string& name);

bool IsTimeout(const ask::Outcome& outcome);
ask::Outcome OutOfTime(const std::string& name);

// Adds to what ended the wait for `comparison` what becomes of it.
ask::Outcome TellWhetherItGoesOn(ask::Outcome outcome,
                                 const v1::Comparison& comparison);

// The outcome of a command whose comparison is over: a failure if it does not
// pass, was cancelled or failed itself.
ask::Outcome OutcomeOf(const v1::Comparison& comparison, ask::Allowed allowed);

}  // namespace msitd::msitctl
