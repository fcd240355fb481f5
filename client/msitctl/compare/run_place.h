// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/run.h"

namespace msitd::msitctl {

class Invocation;

// Parts operands such as `s3://bucket/runs/golden` into the URL of an archive
// and the run in it, and refuses what reads both runs at the daemon alone.
ask::Outcome TakePlaces(Invocation& invocation, CompareFlags& flags);

// True if a run does not lie in the daemon that compares.
bool IsFar(const CompareFlags& flags);

}  // namespace msitd::msitctl
