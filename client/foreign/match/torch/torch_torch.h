// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// Puts two torch models together: ops by their names, and those that one run
// alone has by their places, as README.md says. A model_tree.json that is none
// is noted. Errors: RESOURCE_EXHAUSTED for too many.
absl::StatusOr<Mapping> MatchTorchWithTorch(const RunFacts& golden,
                                            const RunFacts& target);

}  // namespace msitd::match
