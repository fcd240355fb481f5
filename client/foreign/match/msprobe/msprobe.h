// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Puts two runs of msprobe together whose names differ: of MindSpore beside
// PyTorch, or of two programs for one model. What the files of
// MatchOptions::msprobe say comes first; the rest is found by name, or with a
// layer mapping by layer.
//
// Errors: those of MappingBuilder::Finish and of PairLayers.
absl::StatusOr<Mapping> MatchMsprobe(const RunFacts& golden,
                                     const RunFacts& target,
                                     const MatchOptions& options);

}  // namespace msitd::match
