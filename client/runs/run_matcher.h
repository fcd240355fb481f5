// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/match/match.h"
#include "client/match/match_options.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

class Connection;

// Which tools two runs are from, as their labels say.
struct RunSources {
  std::string golden;
  std::string target;
};
Outcome ReadSources(Connection& connection, const std::string& golden,
                    const std::string& target, RunSources& sources);

struct RunMatch {
  match::Matcher matcher = match::Matcher::kGeFx;
  RunSources sources;
  match::Mapping mapping;
};

// Puts the tensors of two runs together by `matcher`, or by that which the
// sources ask for if it is nothing. `out` stays nothing if names are enough: no
// matcher is asked for, or all ops have the same names. A usage error says
// which matcher cannot, and why.
Outcome MatchRuns(Connection& connection, const std::string& golden,
                  const std::string& target, const RunSources& sources,
                  std::optional<match::Matcher> matcher,
                  const match::MatchOptions& options,
                  std::optional<RunMatch>& out);

// Returns the lines of an attachment.
std::string ToText(const match::Mapping& mapping);

}  // namespace msitd::ctl
