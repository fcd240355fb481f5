// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/side_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "daemon/compare/match/target_names.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/shard/lean_shards.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Caches the results of LayoutRules::Find, which checks every rule, by op, io
// and index. Most ranks and calls have the same ones.
class LayoutFinder {
 public:
  // Finds layouts for the tensors of a run with this group number.
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

  // Returns the placement that a rule gives to the tensors of the group. There
  // must be such tensors.
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

// Caches the results of ParsePlacement.
class PlacementFinder {
 public:
  // Finds nothing if there are no meshes, because placements are then ignored.
  explicit PlacementFinder(const MeshSet& meshes) : meshes_(meshes) {}

  // Returns null if the tensor has no placement or an invalid one.
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

// Shards with one group number, by the tensor that they form.
class ShardTable {
 public:
  ShardTable(int32_t group_number, RankCount ranks)
      : group_number_(group_number), ranks_(ranks) {}

  // Adds a shard with its placement or rule. Shards with equal names but
  // different meshes belong to different tensors.
  void Add(std::shared_ptr<const PlacedMesh> placed,
           storage::TensorInfo shard) {
    std::string name = PairName(shard.key.op, shard.key);
    if (!placed->rule.has_value()) {
      name += '\0';
      name += MeshText(shard.placement);
      // The placement does not contain the rank of its own shard. Such a shard
      // must not affect those that are in the mesh.
      if (!placed->mesh.IndexOf(shard.key.rank).has_value()) {
        name += fmt::format("{}{}", '\0', shard.key.rank);
      }
    }
    Shards& shards = tensors_[std::move(name)];
    if (shards.placed == nullptr) shards.placed = std::move(placed);
    shards.shards.push_back(std::move(shard));
  }

  // Adds a copy of a tensor that each rank of `mesh` computes for itself. Ranks
  // without a copy are ignored.
  void AddCopy(const Mesh& mesh, storage::TensorInfo copy) {
    std::string name = PairName(copy.key.op, copy.key) + '\0';
    Shards& shards = tensors_[std::move(name)];
    shards.copied_by = &mesh;
    shards.shards.push_back(std::move(copy));
  }

  bool empty() const { return tensors_.empty(); }

  // Appends the assembled tensors to `out`. `ranks_seen` are the ranks that
  // have tensors with this group number.
  void Assemble(const std::set<int32_t>& ranks_seen,
                std::vector<LogicalTensor>& out) {
    for (auto& [name, tensor] : tensors_) {
      std::sort(tensor.shards.begin(), tensor.shards.end(), ComesBefore);
      if (tensor.placed != nullptr) {
        out.push_back(compare::Assemble(*tensor.placed, group_number_, ranks_,
                                        std::move(tensor.shards)));
        continue;
      }
      const auto rank_count =
          std::count_if(ranks_seen.begin(), ranks_seen.end(),
                        [&tensor = tensor](int32_t rank) {
                          return tensor.copied_by->IndexOf(rank).has_value();
                        });
      out.push_back(AssembleCopies(group_number_,
                                   static_cast<size_t>(rank_count),
                                   std::move(tensor.shards)));
    }
  }

 private:
  // The shards of a tensor. Either `placed` or `copied_by` is set.
  struct Shards {
    std::shared_ptr<const PlacedMesh> placed;
    const Mesh* copied_by = nullptr;  // For copies, their mesh.
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
};

// At least one of `layout` and `placed` is null.
int32_t GroupNumberOf(int32_t rank, const Layout* layout,
                      const PlacedMesh* placed) {
  if (layout != nullptr) return layout->GroupOf(rank);
  // A shard whose mesh does not contain its rank is reported at its own rank.
  if (placed == nullptr || !placed->mesh.IndexOf(rank).has_value()) return rank;
  return placed->mesh.group_number();
}

// Determines the group and the layout of each tensor of a side.
class Sorter {
 public:
  Sorter(const RunSide& side, int32_t group_number)
      : side_(side),
        layouts_(side.layouts, group_number, side.ranks),
        placements_(side.meshes) {}

  // The classification of one tensor.
  struct TensorClass {
    int32_t group_number = 0;
    // The rule or the recorded placement of a shard. Both are null if the
    // tensor is not a shard.
    const Layout* layout = nullptr;
    std::shared_ptr<const PlacedMesh> placed;
    // The mesh of a copy; null for other tensors.
    const Mesh* copied_by = nullptr;

    bool is_alone() const {
      return layout == nullptr && placed == nullptr && copied_by == nullptr;
    }
  };

  TensorClass PlaceOf(const storage::TensorInfo& tensor) {
    TensorClass out;
    out.placed = placements_.Find(tensor);
    out.layout = layouts_.Find(tensor.key, out.placed != nullptr);
    if (out.layout != nullptr) out.placed = nullptr;
    if (side_.has_copies && out.is_alone()) {
      out.copied_by = side_.meshes.SmallestOf(tensor.key.rank);
    }
    out.group_number =
        out.copied_by != nullptr
            ? out.copied_by->group_number()
            : GroupNumberOf(tensor.key.rank, out.layout, out.placed.get());
    return out;
  }

  // Returns the placement of a tensor of the group, or null if it is not a
  // shard.
  std::shared_ptr<const PlacedMesh> PlacedMeshOf(const TensorClass& place) {
    return place.layout == nullptr ? place.placed
                                   : layouts_.PlacedBy(*place.layout);
  }

 private:
  const RunSide& side_;
  LayoutFinder layouts_;
  PlacementFinder placements_;
};

}  // namespace

bool SideLoader::Range::Has(const TensorKey& key) const {
  if (!ops.empty() && !ops.contains(key.op)) return false;
  if (piece_count == 1) return true;
  return std::hash<std::string>()(PairName(key.op, key)) % piece_count == piece;
}

absl::StatusOr<bool> SideLoader::Load(std::vector<LogicalTensor>& out) {
  MSITD_ASSIGN_OR_RETURN(bool fits, LoadRange(Range(), false, out));
  const bool takes_all = takes_ == nullptr;
  if (fits || !takes_all || !were_shards_ || side_.layouts.has_fit()) {
    return fits;
  }
  out.clear();
  part_count_ = 0;
  Counts counts;
  MSITD_ASSIGN_OR_RETURN(fits, Count(counts));
  if (!fits) return false;
  const uint64_t incomplete_count = incomplete_count_;
  for (const Range& range : RangesOf(counts)) {
    MSITD_ASSIGN_OR_RETURN(fits, LoadRange(range, true, out));
    if (!fits || out.size() > kGroupTensorsMax) return false;
  }
  // Ranges that share an op count the same incomplete tensors, so that the
  // number of Count is used.
  incomplete_count_ = incomplete_count;
  return true;
}

absl::StatusOr<bool> SideLoader::LoadRange(const Range& range, bool is_lean,
                                           std::vector<LogicalTensor>& out) {
  Selector selector = side_.selector;
  if (!range.ops.empty()) {
    selector.op_patterns.assign(range.ops.begin(), range.ops.end());
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         side_.run.Scan(std::move(selector), ""));
  ShardTable shards(group_number_, side_.ranks);
  Sorter sorter(side_, group_number_);
  size_t count = 0;
  storage::TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop_));
    if (!more) break;
    const Sorter::TensorClass place = sorter.PlaceOf(tensor);
    if (place.group_number != group_number_ || !range.Has(tensor.key) ||
        (takes_ != nullptr && !takes_(tensor.key))) {
      continue;
    }
    if (count++ == kGroupTensorsMax) {
      were_shards_ = !shards.empty();
      return false;
    }
    if (side_.has_copies) ranks_seen_.insert(tensor.key.rank);
    tensor.key.run.clear();
    tensor.stack = {};
    tensor.alias_of.reset();
    if (tensor.parts.size() > 1) {
      part_count_ += tensor.parts.size();
      if (part_count_ > kGroupPartsMax) tensor.parts.clear();
    }
    // `tensor` is copied and not moved. The copy has only the memory that it
    // needs, and `tensor` keeps its memory for the next one.
    if (auto placed = sorter.PlacedMeshOf(place); placed != nullptr) {
      shards.Add(std::move(placed), tensor);
    } else if (place.copied_by != nullptr) {
      shards.AddCopy(*place.copied_by, tensor);
    } else {
      static_cast<storage::TensorInfo&>(out.emplace_back()) = tensor;
    }
  }
  incomplete_count_ = scan->incomplete_count();
  const size_t first = out.size();
  shards.Assemble(ranks_seen_, out);
  if (!is_lean) return true;
  for (size_t i = first; i < out.size(); ++i) lean_.MakeLean(out[i]);
  return true;
}

absl::StatusOr<bool> SideLoader::Visit(
    absl::FunctionRef<bool(const storage::TensorInfo&)> visit) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         side_.run.Scan(side_.selector, ""));
  Sorter sorter(side_, group_number_);
  storage::TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop_));
    if (!more) return true;
    if (sorter.PlaceOf(tensor).group_number != group_number_) continue;
    if (!visit(tensor)) return false;
  }
}

absl::StatusOr<bool> SideLoader::Count(Counts& counts) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         side_.run.Scan(side_.selector, ""));
  Sorter sorter(side_, group_number_);
  storage::TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor, stop_));
    if (!more) {
      incomplete_count_ = scan->incomplete_count();
      return true;
    }
    const Sorter::TensorClass place = sorter.PlaceOf(tensor);
    if (place.group_number != group_number_) continue;
    if (side_.has_copies) ranks_seen_.insert(tensor.key.rank);
    ++counts.by_op[tensor.key.op];
    counts.alone += place.is_alone() ? 1 : 0;
    if (counts.by_op.size() > kGroupTensorsMax ||
        counts.alone > kGroupTensorsMax) {
      return false;
    }
  }
}

std::vector<SideLoader::Range> SideLoader::RangesOf(const Counts& counts) {
  std::vector<Range> out;
  size_t in_last = 0;
  for (const auto& [op, count] : counts.by_op) {
    if (count > kGroupTensorsMax) {
      // Hashes distribute names over pieces almost evenly. The factor of 2
      // allows for differences.
      const size_t piece_count = 2 * (count / kGroupTensorsMax + 1);
      for (size_t i = 0; i < piece_count; ++i) {
        out.push_back({{op}, i, piece_count});
      }
      in_last = kGroupTensorsMax;
      continue;
    }
    if (out.empty() || in_last + count > kGroupTensorsMax ||
        out.back().ops.size() == Selector::kOpPatternsMax) {
      out.emplace_back();
      in_last = 0;
    }
    out.back().ops.insert(op);
    in_last += count;
  }
  return out;
}

}  // namespace msitd::compare
