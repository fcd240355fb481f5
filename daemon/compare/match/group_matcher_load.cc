// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/side_loader.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
bool GroupMatcher::IsComplete(const GroupKey& key, const Closed& golden,
                              const Closed& target) const {
  const BothHolders& holders = holders_.at(key.rank);
  int32_t target_number = 0;
  MSITD_CHECK(matching_.TargetRank(key.rank, target_number));
  return (golden.is_sealed ||
          IsComplete(matching_.golden_layouts(), golden_meshes_, key.rank,
                     golden_ranks_, holders.golden, golden, key.token)) &&
         (target.is_sealed ||
          IsComplete(matching_.target_layouts(), target_meshes_, target_number,
                     target_ranks_, holders.target, target, key.token));
}

bool GroupMatcher::IsComplete(const LayoutRules& layouts, const MeshSet& meshes,
                              int32_t group_number, RankCount ranks,
                              const Holders& holders, const Closed& closed,
                              int64_t token) {
  if (holders.last_tokens.empty()) return false;
  std::map<int32_t, int64_t> last_tokens = holders.last_tokens;
  for (auto& [rank, last] : last_tokens) {
    if (closed.Has(rank)) ++last;
  }
  for (const storage::RankRange& range :
       layouts.RanksNeeded(group_number, ranks)) {
    const auto begin = last_tokens.lower_bound(range.first);
    const auto end = last_tokens.upper_bound(range.last);
    if (std::distance(begin, end) != range.last - range.first + 1) return false;
    if (std::any_of(begin, end, [token](const auto& last) {
          return last.second <= token;
        })) {
      return false;
    }
  }
  return meshes.AreBeyond(token, group_number, ranks, last_tokens);
}

bool GroupMatcher::HasSeveralDevices(int32_t rank) const {
  const BothHolders& holders = holders_.at(rank);
  return holders.golden.own_devices.size() > 1 ||
         holders.target.own_devices.size() > 1;
}

absl::StatusOr<TensorGroup> GroupMatcher::Load(const GroupKey& key,
                                               storage::StopCheck stop) const {
  const BothHolders& holders = holders_.at(key.rank);
  TensorGroup group;
  group.token = key.token;
  group.rank = key.rank;
  MSITD_ASSIGN_OR_RETURN(
      const bool golden_fits,
      LoadSide(GoldenSide(), key, holders.golden, stop, group.golden));
  group.target.reserve(group.golden.size());
  GroupKey target_key = {key.token + matching_.token_offset(), key.rank};
  // Groups were made of ranks that have a counterpart.
  MSITD_CHECK(matching_.TargetRank(key.rank, target_key.rank));
  MSITD_ASSIGN_OR_RETURN(
      const bool target_fits,
      LoadSide(TargetSide(), target_key, holders.target, stop, group.target));
  if (!golden_fits || !target_fits) {
    group.too_large_run = (golden_fits ? target_ : golden_)->name();
    group.golden.clear();
    group.target.clear();
    return group;
  }
  Match(HasSeveralDevices(key.rank), group);
  return group;
}

absl::StatusOr<bool> GroupMatcher::LoadSide(RunSide side, const GroupKey& key,
                                            const Holders& holders,
                                            storage::StopCheck stop,
                                            std::vector<LogicalTensor>& out) {
  if (holders.devices.empty() || key.token < 0) return true;
  side.selector.ranks.clear();
  for (const auto& [rank, last_token] : holders.last_tokens) {
    side.selector.ranks.push_back(rank);
  }
  side.selector.devices.assign(holders.devices.begin(), holders.devices.end());
  side.selector.tokens = {{key.token, key.token}};
  return SideLoader(std::move(side), key.rank, stop).Load(out);
}

}  // namespace msitd::compare
