// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/foreign/fill/run_matcher.h"
#include "client/foreign/match/match.h"
#include "client/msitctl/flag/match_flags.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Puts the tensors of two runs together as the flags say. Nothing if names are
// enough.
ask::Outcome MatchByFlags(Invocation& invocation, const std::string& golden,
                          const std::string& target,
                          const fill::RunSources& sources,
                          const MatchFlags& flags,
                          std::optional<fill::RunMatch>& out);

// Tells in a note how many tensors belong together, and how to see more.
void TellOfMatch(const fill::RunMatch& match, const std::string& golden,
                 const std::string& target);

// Tells the notes of a mapping.
void TellNotes(const match::Mapping& mapping);

// Tells them, and why tensors belong to none.
void TellOfLeft(const match::Mapping& mapping);

}  // namespace msitd::msitctl
