// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Puts the ops that GE made of a graph (target) beside the nodes of the FX
// graph that it was made of (golden). The graph of GE says which node an op
// is; it is among the files of the target.
//
// Errors: NOT_FOUND without a graph.
absl::StatusOr<Mapping> MatchGeWithFx(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options);

}  // namespace msitd::match
