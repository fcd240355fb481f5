// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/fitted_assembly.h"
#include "daemon/compare/shard/shard_joiner.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;
using Kind = Placement::Kind;

// Maps the shards of a placement to their positions in the grid.
class Arrangement {
 public:
  explicit Arrangement(const PlacedMesh& placed) {
    const std::vector<Placement::MeshDim>& dims = placed.placement.dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      const Placement::MeshDim& dim = dims[i];
      // A recorded dimension of a single rank neither cuts the tensor nor adds
      // to it, even if it is sharded or partial.
      if (dim.size == 1 && !placed.rule.has_value()) continue;
      const auto size = static_cast<size_t>(dim.size);
      if (dim.kind == Kind::kSharded) axes_[dim.tensor_dim].Add(i, size);
      if (dim.kind == Kind::kPartial) {
        terms_.Add(i, size);
        if (dim.reduction != "sum") other_reduction_ = dim.reduction;
      }
    }
    grid_.is_sum = !terms_.mesh_dims.empty();
    grid_.term_count = terms_.count;
    for (const auto& [dim, cuts] : axes_) {
      grid_.axes.push_back({.dim = dim, .count = cuts.count});
    }
    if (!placed.rule.has_value()) return;
    text_ = placed.rule->text;
    for (ShardGrid::Axis& axis : grid_.axes) {
      axis.sections = placed.rule->sections;
      axis.is_zigzag = placed.rule->is_zigzag;
    }
  }

  // In grid(), dimensions of a rule may be negative. GridOf() resolves them for
  // a tensor of `dim_count` dimensions.
  const ShardGrid& grid() const { return grid_; }
  ShardGrid GridOf(size_t dim_count) const {
    ShardGrid out = grid_;
    for (ShardGrid::Axis& axis : out.axes) {
      if (axis.dim < 0) axis.dim += static_cast<int>(dim_count);
    }
    return out;
  }
  bool has_only_copies() const { return !grid_.is_sum && grid_.axes.empty(); }
  // A reduction other than a sum, which is not supported; empty if there is
  // none.
  const std::string& other_reduction() const { return other_reduction_; }

  // Returns the number of a shard in the order of the grid. Copies have equal
  // numbers.
  size_t NumberOf(const Mesh::Index& index) const {
    size_t out = terms_.IndexOf(index);
    for (const auto& [dim, cuts] : axes_) {
      out = out * cuts.count + cuts.IndexOf(index);
    }
    return out;
  }

  // Returns the layout, such as `concat(0)`, `sum of concat(1)` or
  // `replicated`.
  std::string Text() const {
    std::string out = text_;
    if (!out.empty()) return out;
    const auto add = [&out](const std::string& step) {
      if (!out.empty()) out += " of ";
      out += step;
    };
    if (!other_reduction_.empty()) {
      add(other_reduction_);
    } else if (grid_.is_sum) {
      add("sum");
    }
    for (const auto& [dim, cuts] : axes_) add(fmt::format("concat({})", dim));
    return out.empty() ? "replicated" : out;
  }

 private:
  // Dimensions of the mesh that cut the tensor along the same dimension, or
  // that add terms. The first one varies slowest.
  struct Cuts {
    std::vector<size_t> mesh_dims;
    std::vector<size_t> sizes;
    size_t count = 1;

    void Add(size_t mesh_dim, size_t size) {
      mesh_dims.push_back(mesh_dim);
      sizes.push_back(size);
      count *= size;
    }
    size_t IndexOf(const Mesh::Index& index) const {
      size_t out = 0;
      for (size_t i = 0; i < mesh_dims.size(); ++i) {
        out = out * sizes[i] + static_cast<size_t>(index[mesh_dims[i]]);
      }
      return out;
    }
  };

  Cuts terms_;
  std::map<int, Cuts> axes_;  // By dimension of the tensor.
  ShardGrid grid_;
  std::string other_reduction_;
  std::string text_;  // The text of the rule, if there is one.
};

// Returns the ranks of the mesh that are not in `ranks`, which ascend.
std::vector<RankRange> MissingRanks(const Mesh& mesh,
                                    std::span<const int32_t> ranks) {
  std::vector<RankRange> out;
  auto there = ranks.begin();
  size_t row_count = 0;
  for (int32_t i = 0; i < mesh.size() && row_count++ < kMissingRowsMax;
       i += mesh.row_size()) {
    int32_t next = mesh.RankAt(i);
    const int32_t end = next + mesh.row_size();
    for (; there != ranks.end() && *there < end; ++there) {
      if (next < *there) out.push_back({next, *there - 1});
      next = *there + 1;
    }
    if (next < end) out.push_back({next, end - 1});
  }
  return out;
}

// Requires that the placements of the shards are equal and match the ranks of
// the run.
bool CheckPlacements(const PlacedMesh& placed, RankCount ranks,
                     ShardJoiner& joiner) {
  const TensorInfo& first = joiner.shards().front();
  for (const TensorInfo& shard : joiner.shards()) {
    if (!placed.mesh.IndexOf(shard.key.rank).has_value()) {
      return joiner.Fail(Assembly::Problem::kShardsUnfit,
                         fmt::format("rank {} is not in the mesh of its own "
                                     "placement {}",
                                     shard.key.rank, shard.placement));
    }
    if (shard.placement != first.placement) {
      return joiner.Fail(Assembly::Problem::kShardsUnfit,
                         fmt::format("rank {} has placement {}, rank {} has {}",
                                     first.key.rank, first.placement,
                                     shard.key.rank, shard.placement));
    }
  }
  if (ranks.is_final && placed.mesh.last_rank() >= ranks.count) {
    return joiner.Fail(
        Assembly::Problem::kShardsAmiss,
        fmt::format("placement {} goes to rank {}, the run has {}",
                    first.placement, placed.mesh.last_rank(), ranks.count));
  }
  return true;
}

bool CheckKinds(const Arrangement& arrangement, ShardJoiner& joiner) {
  const TensorInfo& first = joiner.shards().front();
  if (!arrangement.other_reduction().empty()) {
    return joiner.Fail(
        Assembly::Problem::kUnsupported,
        fmt::format("placement {}: P({}) is not put together", first.placement,
                    arrangement.other_reduction()));
  }
  const auto& axes = arrangement.grid().axes;
  return std::all_of(axes.begin(), axes.end(), [&](const auto& axis) {
    return joiner.CheckDim(axis.dim);
  });
}

// Uses only the shard of one rank.
void Pick(int32_t rank, ShardJoiner& joiner) {
  std::vector<TensorInfo> picked;
  std::copy_if(joiner.shards().begin(), joiner.shards().end(),
               std::back_inserter(picked), [rank](const TensorInfo& shard) {
                 return shard.key.rank == rank;
               });
  if (picked.empty()) {
    const std::span<const int32_t> ranks = joiner.ranks();
    const std::string others = fmt::format(
        ", rank{} {} {}", ranks.size() == 1 ? "" : "s",
        RankSet::Of(ranks).Text(), ranks.size() == 1 ? "has" : "have");
    joiner.CheckMissing({{rank, rank}}, others);
    return;
  }
  joiner.Keep(std::move(picked));
  joiner.SetRanks({rank});
  if (joiner.CheckOverlap()) joiner.JoinFirst();
}

// Joins the shards of a mesh in the order of the grid.
void Arrange(const Arrangement& arrangement, const Mesh& mesh,
             ShardJoiner& joiner) {
  std::map<size_t, std::vector<const TensorInfo*>> arranged;
  for (const TensorInfo& shard : joiner.shards()) {
    arranged[arrangement.NumberOf(*mesh.IndexOf(shard.key.rank))].push_back(
        &shard);
  }
  // Copies are compared even if other shards are missing.
  for (const auto& [number, copies] : arranged) joiner.CompareCopies(copies);
  if (!joiner.CheckMissing(MissingRanks(mesh, joiner.ranks())) ||
      !CheckKinds(arrangement, joiner)) {
    return;
  }
  // Every rank of the mesh has a shard, so that no number is missing.
  std::vector<TensorInfo> shards_of_grid;
  shards_of_grid.reserve(arranged.size());
  for (const auto& [number, copies] : arranged) {
    shards_of_grid.push_back(*copies.front());
  }
  const size_t dim_count = shards_of_grid.front().shape.size();
  joiner.Keep(std::move(shards_of_grid));
  joiner.Join(arrangement.GridOf(dim_count));
}

// Joins values, which no layout cuts: each rank has the complete value.
void JoinValues(const Mesh& mesh, ShardJoiner& joiner) {
  joiner.CompareCopies();
  if (joiner.CheckOverlap() &&
      joiner.CheckMissing(MissingRanks(mesh, joiner.ranks()))) {
    joiner.JoinFirst();
  }
}

// A value has no sizes to derive a layout from, and is treated as copies.
LogicalTensor FitOrCopies(const Mesh& mesh, int32_t group_number,
                          std::vector<TensorInfo> shards) {
  if (IsValue(shards.front().kind)) {
    return AssembleCopies(group_number, static_cast<size_t>(mesh.size()),
                          std::move(shards));
  }
  std::vector<int32_t> ranks;
  for (const TensorInfo& shard : shards) {
    if (ranks.empty() || ranks.back() != shard.key.rank) {
      ranks.push_back(shard.key.rank);
    }
  }
  return AwaitFit(group_number, MissingRanks(mesh, ranks), std::move(shards));
}

}  // namespace

LogicalTensor Assemble(const PlacedMesh& placed, int32_t group_number,
                       RankCount ranks, std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  const bool has_rule = placed.rule.has_value();
  if (has_rule && placed.rule->is_fit) {
    return FitOrCopies(placed.mesh, group_number, std::move(shards));
  }
  const Arrangement arrangement(placed);
  ShardJoiner joiner(arrangement.Text(), group_number, std::move(shards));
  if (has_rule && placed.rule->picked.has_value()) {
    Pick(*placed.rule->picked, joiner);
    return std::move(joiner).Finish();
  }
  if (IsValue(joiner.shards().front().kind)) {
    JoinValues(placed.mesh, joiner);
    return std::move(joiner).Finish();
  }
  if (!has_rule && !CheckPlacements(placed, ranks, joiner)) {
    return std::move(joiner).Finish();
  }
  if (joiner.shards().front().kind == RecordKind::kStatistics &&
      !arrangement.has_only_copies()) {
    joiner.Fail(Assembly::Problem::kUnsupported,
                "statistics of shards are not put together");
    return std::move(joiner).Finish();
  }
  // Copies are compared even if some are missing or occur twice.
  if (arrangement.has_only_copies()) joiner.CompareCopies();
  if (arrangement.has_only_copies() && has_rule) joiner.AddUpCopies();
  if (joiner.CheckOverlap()) Arrange(arrangement, placed.mesh, joiner);
  return std::move(joiner).Finish();
}

}  // namespace msitd::compare
