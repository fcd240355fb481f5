// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/pairing_hints.h"

#include <algorithm>

#include "daemon/compare/match/match_rules.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

constexpr char kFusedAttention[] = "@sdpa-eager";

// Returns true if at least half of the ops of the smaller side have the same
// loose name as an op of the other side.
bool WouldPairLoosely(const OpNames& golden, const OpNames& target) {
  OpNames names;
  for (const std::string& op : golden) names.insert(MatchRules::LooseName(op));
  size_t count = 0;
  for (const std::string& op : target) {
    count += names.erase(MatchRules::LooseName(op));
  }
  const size_t smaller = std::min(golden.size(), target.size());
  return count >= std::max<size_t>((smaller + 1) / 2, 2);
}

}  // namespace

PairingHints::PairingHints() {
  const std::string preset = kFusedAttention;
  auto rules = UnmatchedRules::Create({&preset, 1});
  MSITD_CHECK(rules.ok());
  fused_attention_ = *std::move(rules);
}

void PairingHints::Add(std::string_view op, Io io, std::string_view index,
                       bool is_golden) {
  are_all_of_attention_ =
      are_all_of_attention_ && fused_attention_.Find(op, io, index) != nullptr;
  OpNames& ops = is_golden ? golden_ : target_;
  if (ops.size() < kHintedOpsMax && !ops.contains(op)) ops.emplace(op);
}

std::vector<std::string> PairingHints::Flags() const {
  if (golden_.empty() && target_.empty()) return {};
  if (are_all_of_attention_) {
    return {std::string("--allow-unmatched ") + kFusedAttention};
  }
  std::vector<std::string> out;
  for (const OpRewrite& rewrite : FindRewrites(golden_, target_)) {
    out.push_back(rewrite.Flag());
  }
  if (out.empty() && WouldPairLoosely(golden_, target_)) {
    out.emplace_back("--fuzzy");
  }
  return out;
}

}  // namespace msitd::compare
