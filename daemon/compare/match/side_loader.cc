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

  bool empty() const { return tensors_.empty(); }

  // `ranks_seen` are the ranks that have a tensor of that number.
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
};

// One of `layout` and `placed` is null, or both.
int32_t GroupNumberOf(int32_t rank, const Layout* layout,
                      const PlacedMesh* placed) {
  if (layout != nullptr) return layout->GroupOf(rank);
  // What says that it is elsewhere is told of with its own rank.
  if (placed == nullptr || !placed->mesh.IndexOf(rank).has_value()) return rank;
  return placed->mesh.group_number();
}

// Tells of each tensor of a side which group it belongs to, and how it lies.
class Sorter {
 public:
  Sorter(const RunSide& side, int32_t group_number)
      : side_(side),
        layouts_(side.layouts, group_number, side.ranks),
        placements_(side.meshes) {}

  // Of one tensor.
  struct Place {
    int32_t group_number = 0;
    // How its shards lie, by a rule or as it says itself; null if it is none.
    const Layout* layout = nullptr;
    std::shared_ptr<const PlacedMesh> placed;
    const Mesh* copied_by = nullptr;  // It is a copy.

    bool is_alone() const {
      return layout == nullptr && placed == nullptr && copied_by == nullptr;
    }
  };

  Place PlaceOf(const storage::TensorInfo& tensor) {
    Place out;
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

  // Of a tensor of the group.
  std::shared_ptr<const PlacedMesh> PlacedMeshOf(const Place& place) {
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
  // Ranges that share an op pass over the same ones.
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
    const Sorter::Place place = sorter.PlaceOf(tensor);
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
    // A copy has just the memory that it needs, and `tensor` keeps its own.
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
    const Sorter::Place place = sorter.PlaceOf(tensor);
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
      // Names are spread evenly over pieces, but for a few more or less.
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
