// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/match/match_rules.h"

namespace msitd::compare {

// Idle rules that are reported, at most.
inline constexpr size_t kIdleRulesMax = 64;

// Lines of a mapping that are named.
inline constexpr size_t kIdleLinesMax = 5;

// Names of ops of a run that are looked at. If a run has more while rules are
// idle, none is reported.
inline constexpr size_t kIdleNamesMax = size_t{1} << 16;

// Finds the rules of a policy and the rewrites of a matching that match no op,
// and the pairs of its mapping that match no tensors:
// most likely they were written for other names. A rule counts as met by an op
// that it matches, even if another rule decides.
//
// Thread-compatible. Looks at each name of an op once, and at none once every
// rule has met one.
class IdleRules {
 public:
  // Both must outlive it.
  IdleRules(const Policy& policy, const MatchRules& matching);

  // Takes the next op of either run.
  void Meet(std::string_view op, bool is_golden);

  // Takes a pair of the mapping that has put tensors together.
  void MeetMappedPair(size_t number) { mapped_pairs_[number] = true; }

  // Returns those that have met no op, as the flags of msitctl take them:
  // `--rule 'head: nl2 <= 1e-9'`; and one text for the pairs of the mapping
  // that have put nothing together, with the lines of the first.
  std::vector<std::string> Texts() const;

 private:
  // Empty if all have put something together.
  std::string MappedPairsText() const;
  void MeetGolden(std::string_view op);
  void MeetUnmatchedRules(std::string_view op);

  const Policy& policy_;
  const MatchRules& matching_;
  std::vector<bool> rules_;  // True for those that have met one.
  std::vector<bool> rewrites_;
  std::vector<bool> unmatched_rules_;
  std::vector<bool> mapped_pairs_;
  bool is_over_ = false;
  std::unordered_set<std::string> golden_;
  std::unordered_set<std::string> target_;
};

}  // namespace msitd::compare
