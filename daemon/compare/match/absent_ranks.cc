// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/absent_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/compare/shard/assembly.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Returns whether a side of a pair is missing or lacks shards.
bool IsMissing(const LogicalTensor* tensor) {
  return tensor == nullptr || !HasAllShards(*tensor);
}

AbsentRanks AbsentOf(const std::string& run, bool is_target,
                     storage::RunRanks ranks, const RankSet& required,
                     const GroupMatcher& matcher) {
  std::erase_if(ranks.held, [&](int32_t rank) {
    return matcher.GroupNumbersOf(is_target, rank).empty();
  });
  // Required ranks count even if the selector excludes them.
  const RankSet elsewhere = required.Minus(RankSet::Of(ranks.held));
  const RankSet lacking = ranks.lacking.Union(elsewhere);
  const std::string_view ranks_word = lacking.count() == 1 ? "rank" : "ranks";
  // With required ranks, other nodes may hold what this one lacks.
  std::string text =
      required.empty()
          ? fmt::format("run {} lacks {} {}", run, ranks_word, lacking.Text())
          : fmt::format("run {} lacks {} {} on this node", run, ranks_word,
                        lacking.Text());
  GroupMatcher::Compared compared = matcher.ComparedOf(is_target, lacking);
  ranks.lacking = compared.ranks.Union(elsewhere);
  return AbsentRanks(std::move(ranks), compared.group_numbers.Union(elsewhere),
                     std::move(text));
}

}  // namespace

AbsentRanks::AbsentRanks(storage::RunRanks ranks, RankSet group_numbers,
                         std::string text)
    : ranks_(std::move(ranks)),
      group_numbers_(std::move(group_numbers)),
      text_(std::move(text)) {}

std::optional<int64_t> AbsentRanks::first_token() const {
  if (group_numbers_.empty()) return std::nullopt;
  // A group number without rows may have tensors from the first token on.
  if (static_cast<int64_t>(first_tokens_.size()) < group_numbers_.count())
    return 0;
  int64_t first = first_tokens_.begin()->second;
  for (const auto& [group_number, token] : first_tokens_) {
    first = std::min(first, token);
  }
  return first;
}

absl::StatusOr<RanksOfRuns> RanksOfRuns::Find(storage::RunReader& golden,
                                              storage::RunReader& target) {
  RanksOfRuns out;
  MSITD_ASSIGN_OR_RETURN(out.golden, storage::FindRunRanks(golden, {}));
  MSITD_ASSIGN_OR_RETURN(out.target, storage::FindRunRanks(target, {}));
  return out;
}

AbsentSides::AbsentSides(const std::string& golden_run,
                         const std::string& target_run, RanksOfRuns ranks,
                         const RequiredRanks& required,
                         const GroupMatcher& matcher)
    : matcher_(&matcher),
      golden_run_(golden_run),
      target_run_(target_run),
      golden_(AbsentOf(golden_run, false, std::move(ranks.golden),
                       required.golden, matcher)),
      target_(AbsentOf(target_run, true, std::move(ranks.target),
                       required.target, matcher)) {}

std::optional<int64_t> AbsentSides::first_token() const {
  const std::optional<int64_t> a = golden_.first_token();
  const std::optional<int64_t> b = target_.first_token();
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

bool AbsentSides::IsExplained(const TensorPair& pair, bool is_target,
                              int32_t group_number) const {
  const RankSet& lacking = (is_target ? target_ : golden_).lacking();
  if (lacking.empty()) return false;
  const LogicalTensor* const tensor = is_target ? pair.target : pair.golden;
  if (tensor == nullptr) {
    const LogicalTensor& other = is_target ? *pair.golden : *pair.target;
    return matcher_->MayBeOn(lacking, is_target, other, group_number);
  }
  const std::vector<RankRange>& missing = tensor->assembly->missing;
  return !missing.empty() && std::all_of(missing.begin(), missing.end(),
                                         [&lacking](const RankRange& ranks) {
                                           return lacking.HasAll(ranks);
                                         });
}

absl::Status AbsentSides::ExplainEnd(const TensorPair& pair,
                                     int32_t group_number,
                                     v1::ComparisonRow& row) {
  const bool lacks_target = pair.target == nullptr;
  if (!lacks_target && pair.golden != nullptr) return absl::OkStatus();
  const auto [found, is_new] =
      last_tokens_.try_emplace({lacks_target, group_number});
  if (is_new) {
    MSITD_ASSIGN_OR_RETURN(found->second,
                           matcher_->LastToken(lacks_target, group_number));
  }
  const std::optional<int64_t> last = found->second;
  const LogicalTensor& tensor = lacks_target ? *pair.golden : *pair.target;
  const int64_t offset = matcher_->token_offset();
  // The same token in the numbers of the run that has ended.
  const int64_t token = tensor.key.token + (lacks_target ? offset : -offset);
  if (!last.has_value() || *last >= token) return absl::OkStatus();
  row.set_reason(fmt::format("{}; run {} ends there with token {}",
                             row.reason(),
                             lacks_target ? target_run_ : golden_run_, *last));
  return absl::OkStatus();
}

void AbsentSides::Explain(const TensorPair& pair, int32_t group_number,
                          v1::ComparisonRow& row) {
  std::string why;
  bool is_explained = true;
  for (const bool is_target : {false, true}) {
    AbsentRanks& side = is_target ? target_ : golden_;
    if (!IsMissing(is_target ? pair.target : pair.golden)) continue;
    side.Note(group_number, row.token());
    is_explained = is_explained && IsExplained(pair, is_target, group_number);
    why += "; " + side.text();
  }
  // If something is missing from a rank that is present, the verdict is proven.
  if (why.empty() || !is_explained) return;
  row.set_for_want_of_ranks(true);
  row.set_reason(row.reason() + why);
}

}  // namespace msitd::compare
