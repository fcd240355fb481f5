// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// Pairs two torch models: ops by their names, and ops that only one run has by
// their positions, as README.md describes. An invalid model_tree.json is noted.
// Returns an error for too many tensors.
absl::StatusOr<Mapping> MatchTorchWithTorch(const RunFacts& golden,
                                            const RunFacts& target);

}  // namespace msitd::match
