// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/foreign/match/facts.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::fill {

// Reads the facts about the run `facts.run` that a matcher needs: its ops,
// attachments and documents. `facts.source` must be set. If several documents
// have the same name, only the first is used. With `all_constructs`, every
// distinct construct.json is used.
ask::Outcome ReadRunFacts(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

// Reads only one document with the modules of a model, if there is one.
ask::Outcome ReadModuleTree(ask::Connection& connection,
                            match::RunFacts& facts);

// Reads only the attachments and documents.
ask::Outcome ReadRunFiles(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

}  // namespace msitd::fill
