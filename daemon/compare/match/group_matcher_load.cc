// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/target_names.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// LayoutRules::Find, which looks at every rule, once for each op, io and index:
// ranks and calls have the same ones again and again.
class LayoutFinder {
 public:
  // Of the tensors of a run with this number.
  LayoutFinder(const LayoutRules& rules, int32_t group_number, RankCount ranks)
      : rules_(rules), group_number_(group_number), ranks_(ranks) {}

  const Layout* Find(const TensorKey& key, bool is_placed) {
    if (rules_.empty()) return nullptr;
    if (layouts_.size() == kGroupTensorsMax) layouts_.clear();
    const auto [found, is_new] = layouts_.try_emplace(
        fmt::format("{}{}{}{}{}{}", key.op, '\0', IoName(key.io), '\0',
                    key.index, is_placed ? "\n" : ""));
    if (is_new) found->second = rules_.Find(key, is_placed);
    return found->second;
  }

  // `layout` has tensors of that number.
  const std::shared_ptr<const PlacedMesh>& PlacedBy(const Layout& layout) {
    std::shared_ptr<const PlacedMesh>& out = placed_[&layout];
    if (out == nullptr) {
      out = std::make_shared<PlacedMesh>(
          layout.PlacedOn(group_number_, ranks_.count));
    }
    return out;
  }

 private:
  const LayoutRules& rules_;
  const int32_t group_number_;
  const RankCount ranks_;
  std::unordered_map<std::string, const Layout*> layouts_;
  std::unordered_map<const Layout*, std::shared_ptr<const PlacedMesh>> placed_;
};

// ParsePlacement, once for each placement.
class PlacementFinder {
 public:
  // Finds nothing if there are no meshes: placements do not count then.
  explicit PlacementFinder(const MeshSet& meshes) : meshes_(meshes) {}

  // Null if the tensor does not say how it lies.
  std::shared_ptr<const PlacedMesh> Find(const storage::TensorInfo& tensor) {
    if (tensor.placement.empty() || meshes_.empty()) return nullptr;
    if (found_.size() == storage::kRunPlacementsMax) found_.clear();
    const auto [found, is_new] = found_.try_emplace(tensor.placement);
    if (is_new) {
      std::optional<Placement> placement = ParsePlacement(tensor.placement);
      if (placement.has_value()) {
        found->second = std::make_shared<PlacedMesh>(*std::move(placement));
      }
    }
    return found->second;
  }

 private:
  const MeshSet& meshes_;
  std::unordered_map<std::string, std::shared_ptr<const PlacedMesh>> found_;
};

// The shards with one group number, by what they are shards of.
class ShardTable {
 public:
  ShardTable(int32_t group_number, RankCount ranks)
      : group_number_(group_number), ranks_(ranks) {}

  // `placed` is what the shard says, or the rule for it. Others of its name
  // that say that they lie on another mesh are of another tensor.
  void Add(std::shared_ptr<const PlacedMesh> placed,
           storage::TensorInfo shard) {
    std::string name = PairName(shard.key.op, shard.key);
    if (!placed->rule.has_value()) {
      name += '\0';
      name += MeshText(shard.placement);
      // It is wrong about itself, which is no matter of those in the mesh.
      if (!placed->mesh.IndexOf(shard.key.rank).has_value()) {
        name += fmt::format("{}{}", '\0', shard.key.rank);
      }
    }
    Shards& shards = tensors_[std::move(name)];
    if (shards.placed == nullptr) shards.placed = std::move(placed);
    shards.shards.push_back(std::move(shard));
  }

  // Of a tensor that each rank of `mesh` has for itself: those that have it
  // count.
  void AddCopy(const Mesh& mesh, storage::TensorInfo copy) {
    std::string name = PairName(copy.key.op, copy.key) + '\0';
    Shards& shards = tensors_[std::move(name)];
    shards.copied_by = &mesh;
    shards.shards.push_back(std::move(copy));
  }

  // Takes note of a rank that has a tensor of that number.
  void See(int32_t rank) { ranks_seen_.insert(rank); }

  void Assemble(std::vector<LogicalTensor>& out) {
    for (auto& [name, tensor] : tensors_) {
      std::sort(tensor.shards.begin(), tensor.shards.end(), ComesBefore);
      if (tensor.placed != nullptr) {
        out.push_back(compare::Assemble(*tensor.placed, group_number_, ranks_,
                                        std::move(tensor.shards)));
        continue;
      }
      const auto rank_count =
          std::count_if(ranks_seen_.begin(), ranks_seen_.end(),
                        [&tensor = tensor](int32_t rank) {
                          return tensor.copied_by->IndexOf(rank).has_value();
                        });
      out.push_back(AssembleCopies(group_number_,
                                   static_cast<size_t>(rank_count),
                                   std::move(tensor.shards)));
    }
  }

 private:
  // By one of the two.
  struct Shards {
    std::shared_ptr<const PlacedMesh> placed;
    const Mesh* copied_by = nullptr;  // For copies.
    std::vector<storage::TensorInfo> shards;
  };

  static bool ComesBefore(const storage::TensorInfo& a,
                          const storage::TensorInfo& b) {
    return std::tie(a.key.rank, a.key.device) <
           std::tie(b.key.rank, b.key.device);
  }

  const int32_t group_number_;
  const RankCount ranks_;
  std::unordered_map<std::string, Shards> tensors_;
  std::set<int32_t> ranks_seen_;
};

// One of `layout` and `placed` is null, or both.
int32_t GroupNumberOf(int32_t rank, const Layout* layout,
                      const PlacedMesh* placed) {
  if (layout != nullptr) return layout->GroupOf(rank);
  // What says that it is elsewhere is told of with its own rank.
  if (placed == nullptr || !placed->mesh.IndexOf(rank).has_value()) return rank;
  return placed->mesh.group_number();
}

}  // namespace

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

absl::StatusOr<bool> GroupMatcher::LoadSide(
    Side side, const GroupKey& key, const Holders& holders,
    storage::StopCheck stop, std::vector<LogicalTensor>& out) const {
  if (holders.devices.empty() || key.token < 0) return true;
  side.selector.ranks.clear();
  for (const auto& [rank, last_token] : holders.last_tokens) {
    side.selector.ranks.push_back(rank);
  }
  side.selector.devices.assign(holders.devices.begin(), holders.devices.end());
  side.selector.tokens = {{key.token, key.token}};
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         side.run.Scan(std::move(side.selector), ""));
  ShardTable shards(key.rank, side.ranks);
  LayoutFinder layouts(side.layouts, key.rank, side.ranks);
  PlacementFinder placements(side.meshes);
  size_t count = 0;
  size_t part_count = 0;  // Of tensors of several.
  storage::TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop));
    if (!more) break;
    std::shared_ptr<const PlacedMesh> placed = placements.Find(tensor);
    const Layout* layout = layouts.Find(tensor.key, placed != nullptr);
    if (layout != nullptr) placed = nullptr;
    const Mesh* const copied_by =
        side.has_copies && layout == nullptr && placed == nullptr
            ? side.meshes.SmallestOf(tensor.key.rank)
            : nullptr;
    const int32_t group_number =
        copied_by != nullptr
            ? copied_by->group_number()
            : GroupNumberOf(tensor.key.rank, layout, placed.get());
    if (group_number != key.rank) continue;
    if (count++ == kGroupTensorsMax) return false;
    if (side.has_copies) shards.See(tensor.key.rank);
    tensor.key.run.clear();
    tensor.stack = {};
    tensor.alias_of.reset();
    if (tensor.parts.size() > 1) {
      part_count += tensor.parts.size();
      if (part_count > kGroupPartsMax) tensor.parts.clear();
    }
    // A copy has just the memory that it needs, and `tensor` keeps its own.
    if (layout != nullptr) placed = layouts.PlacedBy(*layout);
    if (placed != nullptr) {
      shards.Add(std::move(placed), tensor);
    } else if (copied_by != nullptr) {
      shards.AddCopy(*copied_by, tensor);
    } else {
      static_cast<storage::TensorInfo&>(out.emplace_back()) = tensor;
    }
  }
  shards.Assemble(out);
  return true;
}

}  // namespace msitd::compare
