// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/ctl/flag/match_flags.h"
#include "client/ctl/invocation.h"
#include "client/match/match.h"
#include "client/query/outcome.h"
#include "client/runs/run_matcher.h"

namespace msitd::ctl {

// Puts the tensors of two runs together as the flags say. Nothing if names are
// enough.
Outcome MatchByFlags(Invocation& invocation, const std::string& golden,
                     const std::string& target, const RunSources& sources,
                     const MatchFlags& flags, std::optional<RunMatch>& out);

// Tells in a note how many tensors belong together, and how to see more.
void TellOfMatch(const RunMatch& match, const std::string& golden,
                 const std::string& target);

// Tells the notes of a mapping.
void TellNotes(const match::Mapping& mapping);

// Tells them, and why tensors belong to none.
void TellOfLeft(const match::Mapping& mapping);

}  // namespace msitd::ctl
