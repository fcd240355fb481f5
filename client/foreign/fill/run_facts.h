// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

// A document with the modules of a model.
struct ModuleTree {
  std::string name;  // The name of the record.
  std::string op;
  int64_t size_bytes = 0;
};
// Finds one of a run. Leaves `tree` empty if there is none.
ask::Outcome FindModuleTree(ask::Connection& connection, const std::string& run,
                            std::optional<ModuleTree>& tree);
// Reads it as a file of the facts, unless it is too large.
ask::Outcome ReadModuleTree(ask::Connection& connection, const ModuleTree& tree,
                            match::RunFacts& facts);

// Reads only the attachments and documents.
ask::Outcome ReadRunFiles(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

}  // namespace msitd::fill
