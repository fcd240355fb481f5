// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Pairs the ops that GE created from a graph (target) with the nodes of the
// original FX graph (golden). The graph of GE, which is among the files of the
// target, contains the node of each op.
//
// Errors: NOT_FOUND without a graph.
absl::StatusOr<Mapping> MatchGeWithFx(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options);

}  // namespace msitd::match
