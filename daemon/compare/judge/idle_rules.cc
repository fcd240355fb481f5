// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/idle_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace msitd::compare {
namespace {

bool HaveAllMet(const std::vector<bool>& rules) {
  return std::find(rules.begin(), rules.end(), false) == rules.end();
}

}  // namespace

IdleRules::IdleRules(const Policy& policy, const MatchRules& matching)
    : policy_(policy),
      matching_(matching),
      rules_(policy.rule_count()),
      rewrites_(matching.rewrite_count()),
      unmatched_rules_(policy.unmatched_rules().text_count()),
      mapped_pairs_(
          matching.mapping() != nullptr ? matching.mapping()->pair_count() : 0),
      golden_views_(matching.golden_views().count()),
      target_views_(matching.target_views().count()),
      is_over_(rules_.empty() && rewrites_.empty() &&
               unmatched_rules_.empty()) {}

void IdleRules::MeetUnmatchedRules(std::string_view op) {
  policy_.unmatched_rules().Mark(op, unmatched_rules_);
}

void IdleRules::MeetGolden(std::string_view op) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i]) rules_[i] = policy_.MatchesOp(i, op);
  }
}

void IdleRules::Meet(std::string_view op, bool is_golden) {
  if (is_over_) return;
  std::unordered_set<std::string>& names = is_golden ? golden_ : target_;
  if (!names.emplace(op).second) return;
  MeetUnmatchedRules(op);
  if (is_golden) {
    MeetGolden(op);
  } else {
    matching_.MarkRewrites(op, rewrites_);
    MeetUnmatchedRules(matching_.GoldenOpOf(op));
  }
  const bool have_all_met = HaveAllMet(rules_) && HaveAllMet(rewrites_) &&
                            HaveAllMet(unmatched_rules_);
  if (!have_all_met && names.size() < kIdleNamesMax) return;
  is_over_ = true;
  golden_.clear();
  target_.clear();
}

std::string IdleRules::MappedPairsText() const {
  const auto count =
      std::count(mapped_pairs_.begin(), mapped_pairs_.end(), false);
  if (count == 0) return "";
  std::vector<int> lines;
  for (size_t i = 0; i < mapped_pairs_.size(); ++i) {
    if (mapped_pairs_[i]) continue;
    lines.push_back(matching_.mapping()->pair(i).line);
    if (lines.size() == kIdleLinesMax) break;
  }
  const bool is_all = static_cast<size_t>(count) == lines.size();
  return fmt::format("--mapping: {} of {} pairs, {} {}{}", count,
                     mapped_pairs_.size(), count == 1 ? "line" : "lines",
                     fmt::join(lines, ", "), is_all ? "" : ", ...");
}

std::vector<std::string> IdleRules::Texts() const {
  std::vector<std::string> out;
  if (std::string text = MappedPairsText(); !text.empty()) {
    out.push_back(std::move(text));
  }
  const auto add = [&out](const std::vector<bool>& rules, auto text_of) {
    for (size_t i = 0; i < rules.size() && out.size() < kIdleRulesMax; ++i) {
      if (!rules[i]) out.push_back(text_of(i));
    }
  };
  add(golden_views_, [this](size_t i) {
    return fmt::format("--golden-view '{}'", matching_.golden_views().Text(i));
  });
  add(target_views_, [this](size_t i) {
    return fmt::format("--target-view '{}'", matching_.target_views().Text(i));
  });
  if (is_over_) return out;
  add(rules_, [this](size_t i) {
    return fmt::format("--rule '{}'", policy_.RuleText(i));
  });
  add(rewrites_, [this](size_t i) {
    return fmt::format("--rewrite '{}'", matching_.RewriteText(i));
  });
  add(unmatched_rules_, [this](size_t i) {
    return fmt::format("--allow-unmatched '{}'",
                       policy_.unmatched_rules().text(i));
  });
  return out;
}

}  // namespace msitd::compare
