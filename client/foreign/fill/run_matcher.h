// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/foreign/match/match.h"
#include "client/foreign/match/match_options.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::fill {

// Which tools two runs are from, as their labels say, and how many ranks they
// have; 0: it is not known.
struct RunSources {
  std::string golden;
  std::string target;
  int32_t golden_ranks = 0;
  int32_t target_ranks = 0;
};
ask::Outcome ReadSources(ask::Connection& connection, const std::string& golden,
                         const std::string& target, RunSources& sources);

// True if a rank of one run belongs to several of the other, which hold copies
// or pieces of a tensor: of runs with different numbers of cards, as tools dump
// models and what they became.
bool JoinsRanks(const RunSources& sources);

struct RunMatch {
  match::Matcher matcher = match::Matcher::kGeFx;
  RunSources sources;
  match::Mapping mapping;
};

// Puts the tensors of two runs together by `matcher`, or by that which the
// sources ask for if it is nothing. `out` stays nothing if names are enough: no
// matcher is asked for, or all ops have the same names. A usage error says
// which matcher cannot, and why.
ask::Outcome MatchRuns(ask::Connection& connection, const std::string& golden,
                       const std::string& target, const RunSources& sources,
                       std::optional<match::Matcher> matcher,
                       const match::MatchOptions& options,
                       std::optional<RunMatch>& out);

// Returns the lines of an attachment.
std::string ToText(const match::Mapping& mapping);

}  // namespace msitd::fill
