// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/foreign/match/match.h"
#include "client/foreign/match/match_options.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::fill {

// The tools that recorded two runs, and the numbers of ranks. A tool is the
// label of its run or, for runs that hooks recorded in engines,
// match::EngineOf. 0: the number is not known.
struct RunSources {
  std::string golden;
  std::string target;
  int32_t golden_ranks = 0;
  int32_t target_ranks = 0;
  // Runs whose engine is not known because the bytes of the document with their
  // modules are gone.
  std::vector<std::string> without_modules;
};
ask::Outcome ReadSources(ask::Connection& connection, const std::string& golden,
                         const std::string& target, RunSources& sources);

// Finds out whether a run has records of its requests.
ask::Outcome FindRequests(ask::Connection& connection, const std::string& run,
                          bool& has_requests);

// Returns true if one rank of a run can belong to several ranks of the other,
// which have copies or pieces of a tensor. This applies to runs with different
// numbers of devices of tools that dump both models and their compiled forms.
bool JoinsRanks(const RunSources& sources);

struct RunMatch {
  match::Matcher matcher = match::Matcher::kGeFx;
  RunSources sources;
  match::Mapping mapping;
};

// Pairs the tensors of two runs using `matcher`, or using the matcher that the
// sources require if `matcher` is not set. `out` stays empty if names suffice:
// no matcher is required, or all ops have the same names. If the matcher cannot
// be used, a usage error gives the reason.
ask::Outcome MatchRuns(ask::Connection& connection, const std::string& golden,
                       const std::string& target, const RunSources& sources,
                       std::optional<match::Matcher> matcher,
                       const match::MatchOptions& options,
                       std::optional<RunMatch>& out);

// Returns the text of the attachment, as lines.
std::string ToText(const match::Mapping& mapping);

}  // namespace msitd::fill
