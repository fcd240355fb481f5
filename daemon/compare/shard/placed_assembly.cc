// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/shard_joiner.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;
using Kind = Placement::Kind;

// Where each shard of a placement goes.
class Arrangement {
 public:
  explicit Arrangement(const Placement& placement) {
    for (size_t i = 0; i < placement.dims.size(); ++i) {
      const Placement::MeshDim& dim = placement.dims[i];
      // Along a single rank the tensor is whole, whatever is said of it.
      if (dim.size == 1) continue;
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
  }

  const ShardGrid& grid() const { return grid_; }
  // A reduction that is not put together; empty if there is none.
  const std::string& other_reduction() const { return other_reduction_; }

  // The number of the shard in the order of the grid. Copies have the same.
  size_t NumberOf(const Mesh::Index& index) const {
    size_t out = terms_.IndexOf(index);
    for (const auto& [dim, cuts] : axes_) {
      out = out * cuts.count + cuts.IndexOf(index);
    }
    return out;
  }

  // `concat(0)`, `sum of concat(1)`, `replicated`.
  std::string Text() const {
    std::string out;
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
  // Dimensions of the mesh that do the same, the first one coarsest.
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
};

// The ranks of the mesh that none of `ranks` is, of which all are in it.
std::vector<storage::RankRange> MissingRanks(const Mesh& mesh,
                                             std::span<const int32_t> ranks) {
  std::vector<int32_t> out;
  size_t next = 0;
  for (int32_t i = 0; i < mesh.size() && out.size() <= kMissingRanksMax; ++i) {
    const int32_t rank = mesh.RankAt(i);
    if (next < ranks.size() && ranks[next] == rank) {
      ++next;
    } else {
      out.push_back(rank);
    }
  }
  return storage::ToRanges(out);
}

// What the shards say fits what is known of the run.
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
  return joiner.CheckOverlap();
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

}  // namespace

LogicalTensor AssemblePlaced(const PlacedMesh& placed, int32_t place,
                             RankCount ranks, std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  const Arrangement arrangement(placed.placement);
  ShardJoiner joiner(arrangement.Text(), place, std::move(shards));
  if (!CheckPlacements(placed, ranks, joiner)) {
    return std::move(joiner).Finish();
  }
  std::map<size_t, const TensorInfo*> arranged;
  for (const TensorInfo& shard : joiner.shards()) {
    const auto [first, is_new] = arranged.try_emplace(
        arrangement.NumberOf(*placed.mesh.IndexOf(shard.key.rank)), &shard);
    // Those that are there may differ whatever is missing.
    if (!is_new) joiner.Differ(CopyDifference(shard, *first->second));
  }
  if (!joiner.CheckMissing(MissingRanks(placed.mesh, joiner.ranks())) ||
      !CheckKinds(arrangement, joiner)) {
    return std::move(joiner).Finish();
  }
  // All ranks of the mesh have a shard, so every number is met.
  std::vector<TensorInfo> shards_of_grid;
  shards_of_grid.reserve(arranged.size());
  for (const auto& [number, shard] : arranged) shards_of_grid.push_back(*shard);
  joiner.Keep(std::move(shards_of_grid));
  joiner.Join(arrangement.grid());
  return std::move(joiner).Finish();
}

}  // namespace msitd::compare
