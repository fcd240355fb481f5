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

// Maximum number of idle rules that are reported.
inline constexpr size_t kIdleRulesMax = 64;

// Maximum number of lines of a mapping that are listed.
inline constexpr size_t kIdleLinesMax = 5;

// Maximum number of op names of a run that are checked. If a run has this many
// while a rule is idle, only idle pairs of the mapping are reported.
inline constexpr size_t kIdleNamesMax = size_t{1} << 16;

// Finds the rules of a policy and the rewrites of a matching that match no op,
// the views of a matching that apply to no tensor, and the pairs of a mapping
// that pair no tensors. They were most likely
// written for other names. A rule that matches an op is not idle, even if an
// earlier rule decides for that op.
//
// Thread-compatible. Checks each op name of a run once, and none after every
// rule has matched one.
class IdleRules {
 public:
  // The arguments must outlive this object.
  IdleRules(const Policy& policy, const MatchRules& matching);

  // Checks the next op of one of the runs.
  void Meet(std::string_view op, bool is_golden);

  // Records that a view of a run applies to a tensor.
  void MeetView(size_t number, bool is_golden) {
    (is_golden ? golden_views_ : target_views_)[number] = true;
  }

  // Records that a pair of the mapping has paired tensors.
  void MeetMappedPair(size_t number) { mapped_pairs_[number] = true; }

  // Returns the idle rules and rewrites as flags of msitctl, such as
  // `--rule 'head: nl2 <= 1e-9'`. All idle pairs of the mapping are described
  // by one text, which lists the lines of the first ones.
  std::vector<std::string> Texts() const;

 private:
  // Returns an empty text if every pair has paired tensors.
  std::string MappedPairsText() const;
  void MeetGolden(std::string_view op);
  void MeetUnmatchedRules(std::string_view op);

  const Policy& policy_;
  const MatchRules& matching_;
  std::vector<bool> rules_;  // True for rules that have matched an op.
  std::vector<bool> rewrites_;
  std::vector<bool> unmatched_rules_;
  std::vector<bool> mapped_pairs_;
  std::vector<bool> golden_views_;
  std::vector<bool> target_views_;
  bool is_over_ = false;  // No further names are checked.
  std::unordered_set<std::string> golden_;
  std::unordered_set<std::string> target_;
};

}  // namespace msitd::compare
