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

// Pairs the tensors of two runs as the flags specify. Nothing if names suffice.
ask::Outcome MatchByFlags(Invocation& invocation, const std::string& golden,
                          const std::string& target,
                          const fill::RunSources& sources,
                          const MatchFlags& flags,
                          std::optional<fill::RunMatch>& out);

// Prints a note with the number of paired tensors, and how to see details.
void TellOfMatch(const fill::RunMatch& match, const std::string& golden,
                 const std::string& target);

// Prints the notes of a mapping.
void TellNotes(const match::Mapping& mapping);

// Prints the notes, and why tensors have no counterpart.
void TellOfLeft(const match::Mapping& mapping);

}  // namespace msitd::msitctl
