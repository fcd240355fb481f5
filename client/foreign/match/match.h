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

// Pairs the tensors of two runs that different tools recorded. README.md
// describes the rules.
namespace msitd::match {

enum class Matcher : uint8_t {
  kGeFx,        // GE with the FX graph from which it was created.
  kGeGe,        // GE with fused ops and GE without.
  kGeSelf,      // Ops that GE inserted: inputs with outputs.
  kMindie,      // MindIE-Torch and a torch model.
  kTorchAtb,    // The acceleration library and a torch model, or itself.
  kTorch,       // Two torch models.
  kMsprobe,     // msprobe runs of MindSpore and of torch, or with mappings.
  kHfVllm,      // A model in transformers and in vLLM.
  kHfSglang,    // The same in SGLang.
  kHfMegatron,  // The same in Megatron-core.
  kEngines,     // The same in two other engines, or in two releases of one.
};

// Returns the name of a matcher, such as "ge-fx" or "hf-vllm".
std::string_view MatcherName(Matcher matcher);

// The inverse of MatcherName; nothing for an unknown name.
std::optional<Matcher> ParseMatcher(std::string_view name);

// Returns all matchers.
std::vector<Matcher> AllMatchers();

// Returns the matcher that runs of these sources require; nothing if their
// names suffice. The source of a run is its label or, if it has none, EngineOf.
// `is_same_run`: golden and target are the same run.
std::optional<Matcher> ChooseMatcher(std::string_view golden_source,
                                     std::string_view target_source,
                                     bool is_same_run);

// Returns whether a source is an engine for which there is a table.
bool IsEngine(std::string_view source);

// Returns true if a matcher reads a file of this name.
bool IsWanted(std::string_view file);

// Runs a matcher. If the tools of golden and target are in the opposite order
// of the name of the matcher, the sides of the result are swapped too.
//
// Errors: those of the matcher; INVALID_ARGUMENT for runs that the matcher does
// not support.
absl::StatusOr<Mapping> Match(Matcher matcher, const RunFacts& golden,
                              const RunFacts& target,
                              const MatchOptions& options);

}  // namespace msitd::match
