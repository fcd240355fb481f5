// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/ctl/flag/match_flags.h"
#include "client/ctl/invocation.h"
#include "client/match/match.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Which tools two runs are from, as their labels say.
struct RunSources {
  std::string golden;
  std::string target;
};
Outcome ReadSources(Invocation& invocation, const std::string& golden,
                    const std::string& target, RunSources& sources);

struct RunMatch {
  match::Matcher matcher = match::Matcher::kGeFx;
  RunSources sources;
  match::Mapping mapping;
};

// Puts the tensors of two runs together by the matcher that the flags name, or
// that the sources ask for. Nothing if names are enough: no matcher is asked
// for, or all ops have the same names.
Outcome MatchRuns(Invocation& invocation, const std::string& golden,
                  const std::string& target, const RunSources& sources,
                  const MatchFlags& flags, std::optional<RunMatch>& out);

// Returns the lines of an attachment.
std::string ToText(const match::Mapping& mapping);

// Tells in a note how many tensors belong together, and how to see more.
void TellOfMatch(const RunMatch& match, const std::string& golden,
                 const std::string& target);

// Tells why tensors belong to none, in notes.
void TellOfLeft(const match::Mapping& mapping);

}  // namespace msitd::ctl
