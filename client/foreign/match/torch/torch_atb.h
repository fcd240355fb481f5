// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// True for the name of a file that MatchTorchWithAtb reads.
bool IsModuleTree(std::string_view file);

// Puts the modules of a torch model beside the operations of the acceleration
// library, or two runs of the library side by side; either may be the golden
// run. The trees are among the files: `model_tree.json`, without which the
// names of ops have to do, and `model/*.json`.
//
// Errors: NOT_FOUND for a run of the library without a topology;
// INVALID_ARGUMENT for a file that is none.
absl::StatusOr<Mapping> MatchTorchWithAtb(const RunFacts& golden,
                                          const RunFacts& target,
                                          const MatchOptions& options);

}  // namespace msitd::match
