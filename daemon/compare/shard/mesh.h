// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/base/limits.h"
#include "protos/base/placement.h"

namespace msitd::compare {

// The ranks of a run, from 0.
struct RankCount {
  int32_t count = 0;      // Its world size, or those seen so far.
  bool is_final = false;  // No more will come.
};

// What a placement says of its ranks: `0+2x4/4x1`.
std::string_view MeshText(std::string_view placement);

// The ranks of a placement.
//
// Immutable, hence thread-safe.
class Mesh {
 public:
  // Of a rank along the dimensions of the placement, in their order.
  using Index = std::array<int32_t, kMeshDimsMax>;

  // `placement` is what ParsePlacement takes.
  explicit Mesh(const Placement& placement);

  int32_t size() const { return size_; }
  int32_t last_rank() const { return last_rank_; }

  // `number` is from 0 to size() - 1; ranks ascend with it.
  int32_t RankAt(int32_t number) const;

  // So many of its ranks, from any multiple of as many on, are in a row.
  int32_t row_size() const { return row_size_; }

  // Nothing for a rank that is not in the mesh.
  std::optional<Index> IndexOf(int32_t rank) const;

  // The number of the mesh among those of its form that fill the ranks from 0:
  // 1 for ranks 4 to 7, and 1 for ranks 1 and 5 of a mesh of 2 x 4. Of a mesh
  // that such ones cannot fill the ranks with, the number of meshes of its size
  // that go before its first rank.
  int32_t group_number() const { return group_number_; }

 private:
  struct Dim {
    int32_t size;
    int32_t stride;
    size_t number;  // In the placement.
  };

  int32_t FindGroupNumber() const;

  const int32_t first_;
  std::vector<Dim> dims_;  // Those of several ranks, the largest stride first.
  int32_t size_ = 1;
  int32_t row_size_ = 1;
  int32_t last_rank_;
  int32_t group_number_;
};

// What a rule of the user says of a placement beyond what shards can say.
struct PlacementRule {
  std::string text;  // As in ComparedTensor.layout.
  // Of the only axis; see ShardGrid::Axis.
  std::vector<int64_t> sections = {};
  bool is_zigzag = false;
  // The rank that counts, all others being left out; of a Layout its number in
  // the group.
  std::optional<int32_t> picked = {};
  // The sizes of both sides tell: see fitted_assembly.h.
  bool is_fit = false;
};

// How the shards of a tensor lie on their ranks, whoever says so.
struct PlacedMesh {
  explicit PlacedMesh(Placement from)
      : placement(std::move(from)), mesh(placement) {}

  // By a rule a dimension of the tensor may be negative: from the last one.
  Placement placement;
  Mesh mesh;
  std::optional<PlacementRule> rule;  // None: the shards say it themselves.
};

// The meshes on which tensors of one run lie.
//
// Immutable, hence thread-safe.
class MeshSet {
 public:
  MeshSet() = default;

  // Each mesh counts once. What is no placement is left out.
  explicit MeshSet(const std::vector<std::string>& placements);

  bool empty() const { return meshes_.empty(); }
  const std::vector<Mesh>& meshes() const { return meshes_; }

  // The mesh of the fewest ranks, more than one, that `rank` is in; null if
  // there is none. Lives as long as the set.
  const Mesh* SmallestOf(int32_t rank) const;

  // Appends the numbers of the meshes that `rank` is in.
  void AddGroupNumbersOf(int32_t rank, std::vector<int32_t>& out) const;

  // True if `last_tokens`, by rank, goes beyond `token` for all ranks of the
  // meshes of that number. Meshes with ranks that the run will never have do
  // not count.
  bool AreBeyond(int64_t token, int32_t group_number, RankCount ranks,
                 const std::map<int32_t, int64_t>& last_tokens) const;

 private:
  std::vector<Mesh> meshes_;
};

}  // namespace msitd::compare
