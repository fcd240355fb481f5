// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/foreign/match/facts.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::fill {

// Asks for what a matcher wants to know of the run `facts.run`: its ops, the
// attachments and documents that a matcher reads. `facts.source` is known. Of
// documents with one name, the first counts; with `all_constructs`, every
// construct.json that differs from the others does.
ask::Outcome ReadRunFacts(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

// The same, but for the ops: attachments and documents.
ask::Outcome ReadRunFiles(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

}  // namespace msitd::fill
