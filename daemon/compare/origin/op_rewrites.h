// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

// Finds out how the names of ops differ between two runs.
//
// Wrappers change the names of all ops below them: DDP inserts `module`, PEFT
// `base_model.model` and `base_layer`, and another framework calls the same
// part `attn` instead of `self_attn`. Each of these is one substitution. The
// candidates are taken from pairs of names with the same end, and the one that
// turns most target names into golden names is selected, again and again until
// no substitution helps much.
namespace msitd::compare {

// Maximum number of substitutions for one pair of runs.
inline constexpr size_t kSuggestedRewritesMax = 3;

using OpNames = std::set<std::string, std::less<>>;

// A substitution in names of target ops.
struct OpRewrite {
  std::string regex;  // In the syntax of RE2.
  std::string replacement;
  // The number of target ops that this and the earlier substitutions turn into
  // golden ops.
  size_t paired_count = 0;

  // `--rewrite 'REGEX=>REPLACEMENT'`, for msitctl.
  std::string Flag() const;

  friend bool operator==(const OpRewrite&, const OpRewrite&) = default;
};

// Returns the substitutions that turn names in `target` into names in `golden`,
// in the order in which they are to be applied. Together they pair at least
// half of the names of the smaller side. If that side has a single name, one of
// the two names must have a wrapper that the other lacks. Returns nothing if
// there are no such substitutions.
//
// The names should exist in only one run. Takes time proportional to their
// number.
std::vector<OpRewrite> FindRewrites(const OpNames& golden,
                                    const OpNames& target);

}  // namespace msitd::compare
