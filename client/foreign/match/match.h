// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

// Finds out which tensors of two runs of different tools belong together.
// README.md has the rules.
namespace msitd::match {

enum class Matcher : uint8_t {
  kGeFx,      // GE beside the FX graph that it was made of.
  kGeGe,      // GE with fused ops beside GE without.
  kGeSelf,    // What GE put in: inputs beside outputs.
  kMindie,    // MindIE-Torch beside a torch model.
  kTorchAtb,  // The acceleration library beside a torch model, or itself.
  kTorch,     // Two torch models.
  kMsprobe,   // msprobe's runs of MindSpore beside torch, or with mappings.
};

// Returns "ge-fx", "ge-ge", "ge-self", "mindie", "torch-atb", "torch" or
// "msprobe".
std::string_view MatcherName(Matcher matcher);

// The inverse of MatcherName; nothing for an unknown name.
std::optional<Matcher> ParseMatcher(std::string_view name);

// Returns all of them.
std::vector<Matcher> AllMatchers();

// Returns the matcher that runs of these sources ask for; nothing if their
// names are enough. `is_same_run`: golden and target are one run.
std::optional<Matcher> ChooseMatcher(std::string_view golden_source,
                                     std::string_view target_source,
                                     bool is_same_run);

// True if a matcher reads a file of this name.
bool IsWanted(std::string_view file);

// Runs a matcher. Where the tools stand the other way round than the name of
// the matcher says, the pairs do too.
//
// Errors: those of the matcher; INVALID_ARGUMENT for runs that it is not for.
absl::StatusOr<Mapping> Match(Matcher matcher, const RunFacts& golden,
                              const RunFacts& target,
                              const MatchOptions& options);

}  // namespace msitd::match
