// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ctl/compare/run.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

class Invocation;

// Parts operands such as `s3://bucket/runs/golden` into the URL of an archive
// and the run in it, and refuses what reads both runs at the daemon alone.
Outcome TakePlaces(Invocation& invocation, CompareFlags& flags);

// True if a run does not lie in the daemon that compares.
bool IsFar(const CompareFlags& flags);

}  // namespace msitd::ctl
