// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Pairs two runs of msprobe whose names differ: of MindSpore and PyTorch, or of
// two programs for the same model. The files of MatchOptions::msprobe are
// applied first. Other ops are paired by name or, with a layer mapping, by
// layer.
//
// Errors: those of MappingBuilder::Finish and of PairLayers.
absl::StatusOr<Mapping> MatchMsprobe(const RunFacts& golden,
                                     const RunFacts& target,
                                     const MatchOptions& options);

}  // namespace msitd::match
