// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Puts two runs of GE side by side, the target with fused ops, the golden one
// without: a fused op has the inputs that its parts take from outside, and the
// outputs of its last part. Ops of one name belong together. The graph, which
// says what the parts take, is among the files of either run.
absl::StatusOr<Mapping> MatchGeWithGe(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options);

// Puts the inputs of conversions, which GE puts in, beside their outputs:
// golden and target are the same run.
absl::StatusOr<Mapping> MatchConversions(const RunFacts& run,
                                         const MatchOptions& options);

}  // namespace msitd::match
