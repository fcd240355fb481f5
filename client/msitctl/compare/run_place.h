// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/compare_flags.h"

namespace msitd::msitctl {

class Invocation;

// Splits operands such as `s3://bucket/runs/golden` into the URL of an archive
// and the run in it.
ask::Outcome TakePlaces(Invocation& invocation, CompareFlags& flags);

// Returns true if a run is not on the daemon that compares.
bool IsFar(const CompareFlags& flags);

}  // namespace msitd::msitctl
