// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/match/facts.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

class Connection;

// Asks for what a matcher wants to know of the run `facts.run`: its ops, the
// attachments and documents that a matcher reads. `facts.source` is known. Of
// documents with one name, the first counts; with `all_constructs`, every
// construct.json that differs from the others does.
Outcome ReadRunFacts(Connection& connection, match::RunFacts& facts,
                     bool all_constructs = false);

// The same, but for the ops: attachments and documents.
Outcome ReadRunFiles(Connection& connection, match::RunFacts& facts,
                     bool all_constructs = false);

}  // namespace msitd::ctl
