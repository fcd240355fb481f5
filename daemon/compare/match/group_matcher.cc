// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "daemon/compare/match/pairing.h"
#include "daemon/compare/match/seen_tensors.h"
#include "daemon/compare/shard/fitted_assembly.h"
#include "protos/base/limits.h"
#include "protos/base/order_label.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Number of coordinates between two calls of `stop`.
constexpr size_t kCoordinatesPerCheck = 1024;

// Returns the group numbers that tensors of a rank may have, ascending. The
// result for the last rank is cached, because coordinates are sorted by rank.
class GroupNumbersOfRank {
 public:
  GroupNumbersOfRank(const LayoutRules& layouts, const MeshSet& meshes)
      : layouts_(layouts), meshes_(meshes) {}

  const std::vector<int32_t>& Of(int32_t rank) {
    if (rank == rank_) return group_numbers_;
    rank_ = rank;
    group_numbers_ = layouts_.GroupNumbersOf(rank);
    if (meshes_.empty()) return group_numbers_;
    meshes_.AddGroupNumbersOf(rank, group_numbers_);
    std::sort(group_numbers_.begin(), group_numbers_.end());
    group_numbers_.erase(
        std::unique(group_numbers_.begin(), group_numbers_.end()),
        group_numbers_.end());
    return group_numbers_;
  }

 private:
  const LayoutRules& layouts_;
  const MeshSet& meshes_;
  int32_t rank_ = -1;
  std::vector<int32_t> group_numbers_;
};

bool ExecutesBefore(const storage::TensorInfo& a,
                    const storage::TensorInfo& b) {
  const auto order = [](const storage::TensorInfo& tensor) {
    const TensorKey& key = tensor.key;
    return std::tie(tensor.sequence, key.io, key.index, key.op, key.call,
                    key.device);
  };
  return order(a) < order(b);
}

// The order of the index often is the execution order.
void SortByExecution(std::vector<LogicalTensor>& tensors) {
  if (std::is_sorted(tensors.begin(), tensors.end(), ExecutesBefore)) return;
  std::sort(tensors.begin(), tensors.end(), ExecutesBefore);
}

// If a golden tensor has several targets, the first one determines its layout.
void FitPartners(const Partners& partners, TensorGroup& group) {
  for (size_t i = 0; i < group.golden.size(); ++i) {
    for (auto target = partners.TargetOf(i); target.has_value();
         target = partners.NextTarget(*target)) {
      Fit(group.golden[i], group.target[*target]);
    }
    FitAlone(group.golden[i]);
  }
  for (LogicalTensor& target : group.target) FitAlone(target);
}

}  // namespace

absl::StatusOr<GroupMatcher> GroupMatcher::Create(
    storage::RunReader& golden_run, storage::RunReader& target_run,
    Selector selector, MatchRules matching, bool looks_ahead,
    storage::StopCheck stop) {
  GroupMatcher out(golden_run, target_run, std::move(selector),
                   std::move(matching), looks_ahead);
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo golden, golden_run.GetInfo());
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo target, target_run.GetInfo());
  out.has_order_ =
      HasKnownOrder(golden.spec.labels) && HasKnownOrder(target.spec.labels);
  // All ranks of the run count, whether or not they are selected.
  const auto ranks_of =
      [](storage::RunReader& reader,
         const storage::RunInfo& run) -> absl::StatusOr<RankCount> {
    RankCount count{run.spec.world_size, run.spec.world_size > 0};
    MSITD_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                           reader.ListRanks());
    if (!ranks.empty()) count.count = std::max(count.count, ranks.back() + 1);
    return count;
  };
  // Terminates, because the number of placements of a run is limited.
  for (bool is_done = false; !is_done;) {
    MSITD_ASSIGN_OR_RETURN(out.golden_ranks_, ranks_of(golden_run, golden));
    MSITD_ASSIGN_OR_RETURN(out.target_ranks_, ranks_of(target_run, target));
    MSITD_ASSIGN_OR_RETURN(is_done, out.FindGroups(stop));
  }
  if (out.matching_.by_request()) {
    MSITD_RETURN_IF_ERROR(out.JoinRequests(stop));
  }
  return out;
}

absl::StatusOr<MeshSet> GroupMatcher::FindMeshes(
    storage::RunReader& run, const LayoutRules& layouts,
    size_t& placement_count) const {
  placement_count = 0;
  if (matching_.ignore_placements() || layouts.takes_all()) return MeshSet();
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> placements,
                         run.ListPlacements());
  placement_count = placements.size();
  if (!placements.empty() && !selector_.devices.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "run {} has tensors whose shards are on several devices: "
                      "leave the filter by device out, or ignore placements",
                      run.name());
  }
  return MeshSet(placements);
}

absl::StatusOr<bool> GroupMatcher::FindGroups(storage::StopCheck stop) {
  const auto find_meshes = [this](size_t& golden_count,
                                  size_t& target_count) -> absl::Status {
    MSITD_ASSIGN_OR_RETURN(
        golden_meshes_,
        FindMeshes(*golden_, matching_.golden_layouts(), golden_count));
    MSITD_ASSIGN_OR_RETURN(
        target_meshes_,
        FindMeshes(*target_, matching_.target_layouts(), target_count));
    return absl::OkStatus();
  };
  size_t golden_count = 0;
  size_t target_count = 0;
  MSITD_RETURN_IF_ERROR(find_meshes(golden_count, target_count));
  holders_.clear();
  GroupCollector groups;
  for (const bool is_target : {false, true}) {
    MSITD_RETURN_IF_ERROR(AddCoordinates(is_target, stop, groups));
  }
  MSITD_ASSIGN_OR_RETURN(groups_, std::move(groups).Finish());
  // A tensor that was listed may be on a mesh that was recorded later.
  size_t golden_count_now = 0;
  size_t target_count_now = 0;
  MSITD_RETURN_IF_ERROR(find_meshes(golden_count_now, target_count_now));
  return golden_count == golden_count_now && target_count == target_count_now;
}

absl::Status GroupMatcher::AddCoordinates(bool is_target,
                                          storage::StopCheck stop,
                                          GroupCollector& groups) {
  const RunSide side = is_target ? TargetSide() : GoldenSide();
  RankCount& ranks = is_target ? target_ranks_ : golden_ranks_;
  const int64_t token_offset = is_target ? matching_.token_offset() : 0;
  GroupNumbersOfRank group_numbers(side.layouts, side.meshes);
  std::optional<DeviceTokens> place;
  const auto add_place = [&] {
    return place.has_value()
               ? AddPlace(is_target, group_numbers.Of(place->rank), *place,
                          groups)
               : absl::OkStatus();
  };
  // Tokens of a rank and device are consecutive and ascend.
  size_t count = 0;
  MSITD_RETURN_IF_ERROR(side.run.VisitCoordinates(
      LookingAhead(side.selector),
      [&](const storage::Coordinate& at) -> absl::Status {
        if (count++ % kCoordinatesPerCheck == 0) MSITD_RETURN_IF_ERROR(stop());
        if (!place.has_value() || place->rank != at.rank ||
            place->device != at.device) {
          MSITD_RETURN_IF_ERROR(add_place());
          place = DeviceTokens{at.rank, at.device};
        }
        const int64_t token = at.token - token_offset;
        if (IsSelectedToken(token)) place->tokens.Append(token);
        place->last_token = token;
        return absl::OkStatus();
      }));
  MSITD_RETURN_IF_ERROR(add_place());
  if (place.has_value()) ranks.count = std::max(ranks.count, place->rank + 1);
  return absl::OkStatus();
}

Selector GroupMatcher::LookingAhead(Selector selector) const {
  std::vector<TokenRange>& tokens = selector.tokens;
  if (looks_ahead_ && !tokens.empty()) {
    int64_t last = 0;
    for (const TokenRange& range : tokens) {
      last = std::max(last, range.last);
    }
    if (last < kTokenMax) tokens.push_back({last + 1, kTokenMax});
  }
  return selector;
}

absl::Status GroupMatcher::AddPlace(bool is_target,
                                    const std::vector<int32_t>& group_numbers,
                                    const DeviceTokens& place,
                                    GroupCollector& groups) {
  for (const int32_t group_number : group_numbers) {
    const auto golden_number = GoldenNumberOf(is_target, group_number);
    if (!golden_number.has_value() || !IsSelected(*golden_number)) continue;
    if (!is_target || !matching_.by_request()) {
      MSITD_RETURN_IF_ERROR(groups.Add(*golden_number, place.tokens));
    }
    BothHolders& both = holders_[*golden_number];
    Holders& holders = is_target ? both.target : both.golden;
    holders.devices.insert(place.device);
    if (group_number == place.rank) holders.own_devices.insert(place.device);
    const auto last =
        holders.last_tokens.emplace(place.rank, place.last_token).first;
    last->second = std::max(last->second, place.last_token);
  }
  return absl::OkStatus();
}

bool GroupMatcher::IsSelected(int32_t group_number) const {
  return selector_.HasRank(group_number);
}

std::optional<int32_t> GroupMatcher::GoldenNumberOf(
    bool is_target, int32_t group_number) const {
  int32_t other = 0;
  if (is_target) {
    return matching_.GoldenRank(group_number, other) ? std::optional(other)
                                                     : std::nullopt;
  }
  return matching_.TargetRank(group_number, other) ? std::optional(group_number)
                                                   : std::nullopt;
}

std::vector<int32_t> GroupMatcher::GroupNumbersOf(bool is_target,
                                                  int32_t rank) const {
  std::vector<int32_t> out;
  GroupNumbersOfRank group_numbers(LayoutsOf(is_target), MeshesOf(is_target));
  for (const int32_t group_number : group_numbers.Of(rank)) {
    const auto golden_number = GoldenNumberOf(is_target, group_number);
    if (!golden_number.has_value() || !IsSelected(*golden_number)) continue;
    out.push_back(*golden_number);
  }
  return out;
}

bool GroupMatcher::IsSelectedToken(int64_t token) const {
  return selector_.HasToken(token);
}

bool GroupMatcher::HasCopies() const {
  return golden_ranks_.is_final && target_ranks_.is_final &&
         golden_ranks_.count != target_ranks_.count;
}

RunSide GroupMatcher::GoldenSide() const {
  RunSide side{*golden_,       selector_,     matching_.golden_layouts(),
               golden_meshes_, golden_ranks_, HasCopies()};
  // Shards on other ranks may belong to selected groups.
  if (!side.layouts.empty() || !side.meshes.empty()) {
    side.selector.ranks.clear();
  }
  // Requests are selected when they are joined.
  side.selector.requests.clear();
  // Patterns match the names of views, which may read any tensor.
  if (matching_.golden_views_read_others()) side.selector.op_patterns.clear();
  return side;
}

RunSide GroupMatcher::TargetSide() const {
  RunSide side{*target_,       selector_,     matching_.target_layouts(),
               target_meshes_, target_ranks_, HasCopies()};
  Selector& selector = side.selector;
  // Golden ranks without a counterpart are not compared. If none is left, -1
  // selects no rank, whereas an empty list would select all.
  std::erase_if(selector.ranks, [this](int32_t& rank) {
    return !matching_.TargetRank(rank, rank);
  });
  if (selector.ranks.empty() && !selector_.ranks.empty()) {
    selector.ranks = {-1};
  }
  if (!side.layouts.empty() || !side.meshes.empty()) selector.ranks.clear();
  for (TokenRange& range : selector.tokens) {
    range.first += matching_.token_offset();
    range.last += matching_.token_offset();
  }
  if (matching_.by_request()) selector.tokens.clear();
  selector.requests.clear();
  // Patterns match golden names, which are determined after loading.
  if (matching_.renames()) selector.op_patterns.clear();
  return side;
}

bool GroupMatcher::IsSelectedGolden(const storage::TensorInfo& golden) const {
  return selector_.op_patterns.empty() ||
         !matching_.golden_views_read_others() ||
         selector_.HasOp(golden.key.op);
}

bool GroupMatcher::IsSelectedTarget(const storage::TensorInfo& target) const {
  return selector_.op_patterns.empty() || !matching_.renames() ||
         selector_.HasOp(matching_.GoldenOpOf(target.key));
}

void GroupMatcher::Match(bool with_device, CallPairing calls,
                         TensorGroup& group) const {
  SortByExecution(group.golden);
  SortByExecution(group.target);
  const PairingSides sides{group.golden, group.target, with_device, calls};
  Partners partners(sides);
  for (const auto& pairing : PairingsOf(matching_)) {
    pairing->Pair(sides, partners);
  }
  if (matching_.golden_layouts().has_fit() ||
      matching_.target_layouts().has_fit()) {
    FitPartners(partners, group);
  }
  group.pairs.reserve(group.golden.size());
  for (size_t i = 0; i < group.golden.size(); ++i) {
    if (!IsSelectedGolden(group.golden[i])) continue;
    std::optional<size_t> target = partners.TargetOf(i);
    if (!target.has_value()) {
      const Bond& why = partners.WhyGoldenIsLeft(i);
      group.pairs.push_back(
          {&group.golden[i], nullptr, why.reason, why.mapped_pair});
    }
    for (; target.has_value(); target = partners.NextTarget(*target)) {
      const Bond& bond = partners.BondOf(*target);
      group.pairs.push_back({&group.golden[i], &group.target[*target],
                             bond.reason, bond.mapped_pair});
    }
  }
  for (size_t i = 0; i < group.target.size(); ++i) {
    if (partners.IsTaken(i) || !IsSelectedTarget(group.target[i])) continue;
    const Bond& why = partners.WhyTargetIsLeft(i);
    group.pairs.push_back(
        {nullptr, &group.target[i], why.reason, why.mapped_pair});
  }
  MarkPartlySeen(group);
}

}  // namespace msitd::compare
