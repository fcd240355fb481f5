// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/invocation.h"
#include "client/match/facts.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// The label of a run that says which tool it was imported from.
inline constexpr char kSourceLabel[] = "source";

// Asks for what a matcher wants to know of the run `facts.run`: its ops, the
// attachments and documents that a matcher reads. `facts.source` is known.
Outcome ReadRunFacts(Invocation& invocation, match::RunFacts& facts);

}  // namespace msitd::ctl
