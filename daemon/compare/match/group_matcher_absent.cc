// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/shard/shard_joiner.h"
#include "protos/status/status.h"

// Functions of GroupMatcher that determine what absent ranks may have.
namespace msitd::compare {
namespace {

// Returns the row of the mesh that begins with rank number `number`.
RankRange RowAt(const Mesh& mesh, int32_t number) {
  const int32_t first = mesh.RankAt(number);
  return {first, first + mesh.row_size() - 1};
}

bool HasAnyOf(const Mesh& mesh, const RankSet& absent) {
  for (int32_t i = 0; i < mesh.size(); i += mesh.row_size()) {
    if (absent.HasAnyOf(RowAt(mesh, i))) return true;
  }
  return false;
}

// Checks at most kMissingRowsMax rows.
bool HasAllOf(const Mesh& mesh, const RankSet& absent) {
  size_t row_count = 0;
  for (int32_t i = 0; i < mesh.size() && row_count++ < kMissingRowsMax;
       i += mesh.row_size()) {
    if (!absent.HasAll(RowAt(mesh, i))) return false;
  }
  return true;
}

}  // namespace

std::vector<int32_t> GroupMatcher::SelectedGroupNumbers() const {
  std::vector<int32_t> out;
  const auto add = [&](int32_t group_number) {
    int32_t ignored = 0;
    if (matching_.TargetRank(group_number, ignored))
      out.push_back(group_number);
  };
  for (const int32_t group_number : selector_.ranks) add(group_number);
  if (!selector_.ranks.empty()) return out;
  for (const auto& [golden, target] : matching_.ranks()) add(golden);
  return out;
}

GroupMatcher::Compared GroupMatcher::ComparedOf(bool is_target,
                                                const RankSet& ranks) const {
  const LayoutRules& layouts = LayoutsOf(is_target);
  const MeshSet& meshes = MeshesOf(is_target);
  std::vector<RankRange> group_numbers;
  if (selector_.ranks.empty() && matching_.ranks().empty()) {
    for (const RankRange& range : ranks.ranges()) {
      layouts.AddGroupNumbersOf(range.first, range.last, group_numbers);
    }
    for (const Mesh& mesh : meshes.meshes()) {
      if (!HasAnyOf(mesh, ranks)) continue;
      group_numbers.push_back({mesh.group_number(), mesh.group_number()});
    }
    return {ranks, RankSet(std::move(group_numbers))};
  }
  std::vector<RankRange> needed;
  for (const int32_t golden_number : SelectedGroupNumbers()) {
    int32_t group_number = golden_number;
    if (is_target) matching_.TargetRank(golden_number, group_number);
    const size_t before = needed.size();
    const auto add = [&](RankRange range) {
      if (ranks.HasAnyOf(range)) needed.push_back(range);
    };
    for (const RankRange& range :
         layouts.RanksNeeded(group_number, RanksOf(is_target))) {
      add(range);
    }
    for (const Mesh& mesh : meshes.meshes()) {
      if (mesh.group_number() != group_number) continue;
      for (int32_t i = 0; i < mesh.size(); i += mesh.row_size()) {
        add(RowAt(mesh, i));
      }
    }
    if (needed.size() > before) {
      group_numbers.push_back({golden_number, golden_number});
    }
  }
  return {ranks.Intersection(RankSet(std::move(needed))),
          RankSet(std::move(group_numbers))};
}

absl::StatusOr<std::optional<int64_t>> GroupMatcher::LastToken(
    bool is_target, int32_t golden_number) const {
  if (!selector_.tokens.empty()) return FindLastToken(is_target, golden_number);
  const auto holders_of_runs = holders_.find(golden_number);
  if (holders_of_runs == holders_.end()) return std::nullopt;
  const Holders& holders = is_target ? holders_of_runs->second.target
                                     : holders_of_runs->second.golden;
  std::optional<int64_t> out;
  for (const auto& [rank, last] : holders.last_tokens) {
    out = std::max(out.value_or(last), last);
  }
  if (out.has_value() && is_target) *out += matching_.token_offset();
  return out;
}

absl::StatusOr<std::optional<int64_t>> GroupMatcher::FindLastToken(
    bool is_target, int32_t golden_number) const {
  RunSide side = is_target ? TargetSide() : GoldenSide();
  side.selector.tokens.clear();
  MSITD_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                         side.run.ListRanks());
  std::optional<int64_t> out;
  for (const int32_t rank : ranks) {
    const std::vector<int32_t> numbers = GroupNumbersOf(is_target, rank);
    if (std::find(numbers.begin(), numbers.end(), golden_number) ==
        numbers.end()) {
      continue;
    }
    // One rank at a time, because a run can have many tokens.
    side.selector.ranks = {rank};
    MSITD_ASSIGN_OR_RETURN(const std::vector<storage::Coordinate> coordinates,
                           side.run.ListCoordinates(side.selector));
    for (const storage::Coordinate& at : coordinates) {
      out = std::max(out.value_or(at.token), at.token);
    }
  }
  return out;
}

bool GroupMatcher::MayBeOn(const RankSet& absent, bool is_target,
                           const LogicalTensor& other,
                           int32_t golden_number) const {
  const LayoutRules& layouts = LayoutsOf(is_target);
  const MeshSet& meshes = MeshesOf(is_target);
  const RankCount ranks = RanksOf(is_target);
  int32_t group_number = golden_number;
  if (is_target && !matching_.TargetRank(golden_number, group_number))
    return false;
  const std::optional<std::string> op =
      is_target ? matching_.TargetOpOf(other.key.op)
                : std::optional(matching_.GoldenOpOf(other.key));
  if (!op.has_value()) {
    // The target op is not known, so that each rule may apply to it.
    for (const RankRange& range : layouts.RanksNeeded(group_number, ranks)) {
      if (absent.HasAll(range)) return true;
    }
  } else {
    TensorKey key = other.key;
    key.op = *op;
    const Layout* const layout = layouts.Find(key, /*is_placed=*/false);
    if (layout != nullptr) {
      const auto range = LayoutRules::RanksNeeded(*layout, group_number, ranks);
      if (range.has_value() && absent.HasAll(*range)) return true;
      if (!layout->unless_placed) return false;
    } else if (absent.Has(group_number) &&
               !(HasCopies() && meshes.SmallestOf(group_number) != nullptr)) {
      return true;
    }
  }
  return std::any_of(
      meshes.meshes().begin(), meshes.meshes().end(), [&](const Mesh& mesh) {
        if (mesh.group_number() != group_number) return false;
        return HasCopies() && mesh.size() > 1 ? HasAnyOf(mesh, absent)
                                              : HasAllOf(mesh, absent);
      });
}

}  // namespace msitd::compare
