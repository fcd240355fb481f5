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

// The result of a search for such a document of a run.
struct ModuleSearch {
  std::optional<ModuleTree> tree;
  // There are only documents whose bytes are gone.
  bool lacks_bytes = false;
  bool has_ended = false;
};
ask::Outcome FindModules(ask::Connection& connection, const std::string& run,
                         ModuleSearch& search);
// The same in a single call that may be superfluous: gives up after a short
// time, without an error and without an end of the search.
void TryToFindModules(ask::Connection& connection, const std::string& run,
                      ModuleSearch& search);

// Reads the document as a file of the facts.
ask::Outcome ReadModuleTree(ask::Connection& connection, const ModuleTree& tree,
                            match::RunFacts& facts);

// Reads only the attachments and documents.
ask::Outcome ReadRunFiles(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs = false);

}  // namespace msitd::fill
