// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/invocation.h"
#include "client/query/outcome.h"
#include "client/text/conclusion.h"
#include "msitd/v1/comparison_service.pb.h"

// Waiting for a comparison, and what its end is to the caller of a command.
namespace msitd::ctl {

bool IsOver(const v1::Comparison& comparison);

// What becomes of a comparison that an interrupt or --timeout does not let
// somebody wait for.
enum class IfWaitEnds { kCancel, kLeave };

// Waits until `comparison` is over, and keeps it up to date. The error of a
// wait that ended says what becomes of the comparison.
Outcome WaitForComparison(Invocation& invocation, IfWaitEnds if_wait_ends,
                          v1::Comparison& comparison);

// Cancels with a deadline of its own: whatever ended `outcome` has ended all
// others.
Outcome CancelAfter(Outcome outcome, Invocation& invocation,
                    const std::string& name);

bool IsTimeout(const Outcome& outcome);
Outcome OutOfTime(const std::string& name);

// Adds to what ended the wait for `comparison` what becomes of it.
Outcome TellWhetherItGoesOn(Outcome outcome, const v1::Comparison& comparison);

// The outcome of a command whose comparison is over: a failure if it does not
// pass, was cancelled or failed itself.
Outcome OutcomeOf(const v1::Comparison& comparison, Allowed allowed);

}  // namespace msitd::ctl
