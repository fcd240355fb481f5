// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Pairs two runs of GE, the target with fused ops and the golden run without. A
// fused op has the external inputs of its parts and the outputs of its last
// part. Ops of the same name are paired. The graph, which lists the inputs of
// the parts, is among the files of either run.
absl::StatusOr<Mapping> MatchGeWithGe(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options);

// Pairs the inputs of conversions that GE inserts with their outputs. Golden
// and target are the same run.
absl::StatusOr<Mapping> MatchConversions(const RunFacts& run,
                                         const MatchOptions& options);

}  // namespace msitd::match
