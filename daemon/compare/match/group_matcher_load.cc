// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/pairing.h"
#include "daemon/compare/match/side_loader.h"
#include "daemon/compare/match/target_names.h"
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
  for (const RankRange& range : layouts.RanksNeeded(group_number, ranks)) {
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
  return LoadSome(key, stop, {}, {});
}

absl::StatusOr<TensorGroup> GroupMatcher::LoadSome(
    const GroupKey& key, storage::StopCheck stop,
    const SideLoader::TakesTensor& takes_golden,
    const SideLoader::TakesTensor& takes_target) const {
  TensorGroup group;
  group.token = key.token;
  group.rank = key.rank;
  MSITD_ASSIGN_OR_RETURN(const bool golden_loads,
                         LoadSide(/*is_target=*/false, key, stop, takes_golden,
                                  group.golden, group.golden_incomplete));
  group.target.reserve(group.golden.size());
  MSITD_ASSIGN_OR_RETURN(const bool target_loads,
                         LoadSide(/*is_target=*/true, key, stop, takes_target,
                                  group.target, group.target_incomplete));
  ViewedGoldens goldens;
  const bool target_fits = target_loads && ViewTargets(group.target, goldens);
  const bool golden_fits = golden_loads && ViewGoldens(goldens, group.golden);
  if (!golden_fits || !target_fits) {
    group.too_large_run = (golden_fits ? target_ : golden_)->name();
    group.golden.clear();
    group.target.clear();
    return group;
  }
  // A window may lack the counterparts of some calls.
  const bool is_whole = takes_golden == nullptr && takes_target == nullptr;
  CallPairing calls = CallPairing::kByNumber;
  if (has_order_ && is_whole) {
    calls = has_early_rows_.Has(key) ? CallPairing::kFunctionsByPlace
                                     : CallPairing::kByPlace;
  }
  Match(HasSeveralDevices(key.rank), calls, group);
  return group;
}

bool GroupMatcher::ViewTargets(std::vector<LogicalTensor>& tensors,
                               ViewedGoldens& goldens) const {
  return (!has_mapping_views() ||
          ApplyTargetViews(*matching_.mapping(), kGroupTensorsMax, tensors,
                           goldens)) &&
         matching_.target_views().Apply(kGroupTensorsMax, tensors);
}

bool GroupMatcher::ViewGoldens(const ViewedGoldens& goldens,
                               std::vector<LogicalTensor>& tensors) const {
  return (goldens.all().empty() ||
          ApplyGoldenViews(*matching_.mapping(), goldens, kGroupTensorsMax,
                           tensors)) &&
         matching_.golden_views().Apply(kGroupTensorsMax, tensors);
}

std::optional<GroupMatcher::GroupSide> GroupMatcher::SideOf(
    bool is_target, const GroupKey& group) const {
  const BothHolders& both = holders_.at(group.rank);
  const Holders& holders = is_target ? both.target : both.golden;
  const int64_t token =
      is_target ? group.token + matching_.token_offset() : group.token;
  if (holders.devices.empty() || token < 0) return std::nullopt;
  GroupSide out{is_target ? TargetSide() : GoldenSide(), group.rank};
  // All groups have ranks with a counterpart.
  if (is_target) {
    MSITD_CHECK(matching_.TargetRank(group.rank, out.group_number));
  }
  Selector& selector = out.side.selector;
  selector.ranks.clear();
  for (const auto& [rank, last_token] : holders.last_tokens) {
    selector.ranks.push_back(rank);
  }
  selector.devices.assign(holders.devices.begin(), holders.devices.end());
  selector.tokens = {{token, token}};
  return out;
}

absl::StatusOr<bool> GroupMatcher::LoadSide(
    bool is_target, const GroupKey& group, storage::StopCheck stop,
    const SideLoader::TakesTensor& takes, std::vector<LogicalTensor>& tensors,
    IncompleteTensors& incomplete) const {
  std::optional<GroupSide> side = SideOf(is_target, group);
  if (!side.has_value()) return true;
  incomplete.ranks = side->side.selector.ranks;
  SideLoader loader(std::move(side->side), side->group_number, stop, takes);
  const absl::StatusOr<bool> fits = loader.Load(tensors);
  incomplete.count = loader.incomplete_count();
  return fits;
}

absl::StatusOr<bool> GroupMatcher::LoadTensors(
    bool is_target, const GroupKey& group, storage::StopCheck stop,
    std::vector<LogicalTensor>& tensors, IncompleteTensors& incomplete) const {
  return LoadSide(is_target, group, stop, {}, tensors, incomplete);
}

void GroupMatcher::Pair(TensorGroup& group) const {
  Match(HasSeveralDevices(group.rank), CallPairing::kByNumber, group);
}

std::string GroupMatcher::NameOf(bool is_target, const TensorKey& key) const {
  return PairName(
      is_target ? matching_.KeyOfTarget(key.op) : matching_.KeyOfGolden(key.op),
      key);
}

absl::StatusOr<std::optional<GroupWindows>> GroupMatcher::Split(
    const GroupKey& group, storage::StopCheck stop) const {
  if (!matching_.pairs_by_names_alone() ||
      matching_.golden_layouts().has_fit() ||
      matching_.target_layouts().has_fit() ||
      matching_.golden_views().need_whole_group() ||
      matching_.target_views().need_whole_group()) {
    return std::nullopt;
  }
  GroupSplitter splitter;
  for (const bool is_target : {false, true}) {
    std::optional<GroupSide> side = SideOf(is_target, group);
    if (!side.has_value()) continue;
    SideLoader loader(std::move(side->side), side->group_number, stop);
    MSITD_ASSIGN_OR_RETURN(const bool fits,
                           loader.Visit([&](const storage::TensorInfo& tensor) {
                             return splitter.Add(NameOf(is_target, tensor.key),
                                                 tensor.sequence, is_target);
                           }));
    if (!fits) return std::nullopt;
  }
  return splitter.Split();
}

absl::StatusOr<TensorGroup> GroupMatcher::LoadWindow(
    const GroupKey& group, const GroupWindows& windows, size_t number,
    storage::StopCheck stop) const {
  const auto takes = [&](bool is_target) -> SideLoader::TakesTensor {
    return [this, is_target, &windows, number](const TensorKey& key) {
      return windows.Has(number, NameOf(is_target, key));
    };
  };
  MSITD_ASSIGN_OR_RETURN(TensorGroup out,
                         LoadSome(group, stop, takes(false), takes(true)));
  out.window = number;
  out.is_last_window = number + 1 == windows.count();
  return out;
}

}  // namespace msitd::compare
