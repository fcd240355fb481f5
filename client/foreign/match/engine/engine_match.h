// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// Pairs runs of one model in two engines, or in two releases of an engine, as
// the tables of the engines state. `golden_ranks` and `target_ranks` are the
// numbers of ranks of the runs; 0 if unknown.
//
// Tensors whose shapes do not fit are unmatched. The result has the layouts
// that put together the shards of each run, and the relation of the rows of
// paired activations. For two runs of one engine, tensors of equal names have
// no line.
absl::StatusOr<Mapping> MatchEngines(const RunFacts& golden,
                                     const RunFacts& target, int golden_ranks,
                                     int target_ranks);

}  // namespace msitd::match
