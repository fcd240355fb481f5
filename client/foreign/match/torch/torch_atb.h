// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Returns true for the name of a file that MatchTorchWithAtb reads.
bool IsModuleTree(std::string_view file);

// Pairs the modules of a torch model with the operations of the acceleration
// library, or two runs of the library. Either may be the golden run. The trees
// are among the files: `model/*.json`, and `model_tree.json`, which is replaced
// by the names of ops if it is missing.
//
// Errors: NOT_FOUND for a run of the library without a topology;
// INVALID_ARGUMENT for an invalid file.
absl::StatusOr<Mapping> MatchTorchWithAtb(const RunFacts& golden,
                                          const RunFacts& target,
                                          const MatchOptions& options);

}  // namespace msitd::match
