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

// The number of ranks of a run; ranks are numbered from 0.
struct RankCount {
  int32_t count = 0;      // The world size, or the number of ranks seen so far.
  bool is_final = false;  // The count cannot grow any more.
};

// Returns the part of a placement that describes its ranks, such as
// `0+2x4/4x1`. The result points into `placement`.
std::string_view MeshText(std::string_view placement);

// The ranks of a placement: a grid of one or more dimensions, each with a size
// and a stride from one rank to the next.
//
// Immutable, hence thread-safe.
class Mesh {
 public:
  // Index of a rank along each dimension of the mesh, in the order of the
  // placement.
  using Index = std::array<int32_t, kMeshDimsMax>;

  // `placement` must be valid, as ParsePlacement returns it.
  explicit Mesh(const Placement& placement);

  int32_t size() const { return size_; }
  int32_t last_rank() const { return last_rank_; }

  // Returns a rank by its number, from 0 to size() - 1, in ascending order of
  // ranks.
  int32_t RankAt(int32_t number) const;

  // The length of the rows of the mesh. The ranks with the numbers from i *
  // row_size() to (i + 1) * row_size() - 1 are consecutive.
  int32_t row_size() const { return row_size_; }

  // Returns nothing if `rank` is not in the mesh.
  std::optional<Index> IndexOf(int32_t rank) const;

  // The number of this mesh among the meshes of its form that together fill the
  // ranks from 0. For example, the mesh of ranks 4 to 7 has number 1, and so
  // has the mesh of ranks 1 and 5, the second column of a mesh of 2 x 4. If
  // meshes of its form cannot fill the ranks, it is the number of meshes of its
  // size that fit before its first rank.
  int32_t group_number() const { return group_number_; }

 private:
  struct Dim {
    int32_t size;
    int32_t stride;
    size_t number;  // Number of the dimension in the placement.
  };

  int32_t FindGroupNumber() const;

  const int32_t first_;
  // The dimensions of several ranks, by descending stride.
  std::vector<Dim> dims_;
  int32_t size_ = 1;
  int32_t row_size_ = 1;
  int32_t last_rank_;
  int32_t group_number_;
};

// The properties of a layout rule of the user that a recorded placement cannot
// express.
struct PlacementRule {
  std::string text;  // See ComparedTensor.layout.
  // See ShardGrid::Axis. Applies to the only sharded axis.
  std::vector<int64_t> sections = {};
  bool is_zigzag = false;
  // The only rank whose shard is used. In a Layout, it is counted from the
  // first rank of the group; in a PlacedMesh, it is the rank itself.
  std::optional<int32_t> picked = {};
  // The layout is derived from the sizes of both sides; see fitted_assembly.h.
  bool is_fit = false;
};

// How the shards of a tensor are distributed over ranks, according to the
// placement that they record or to a layout rule of the user.
struct PlacedMesh {
  explicit PlacedMesh(Placement from)
      : placement(std::move(from)), mesh(placement) {}

  // With a rule, a dimension of the tensor may be negative; it then counts from
  // the last dimension.
  Placement placement;
  Mesh mesh;
  // Nothing if the placement was recorded with the shards.
  std::optional<PlacementRule> rule;
};

// The meshes of all placements that occur in one run.
//
// Immutable, hence thread-safe.
class MeshSet {
 public:
  MeshSet() = default;

  // Equal meshes are kept once. Invalid placements are ignored.
  explicit MeshSet(const std::vector<std::string>& placements);

  bool empty() const { return meshes_.empty(); }
  const std::vector<Mesh>& meshes() const { return meshes_; }

  // Returns the smallest mesh of several ranks that contains `rank`, or null if
  // there is none. The mesh lives as long as the set.
  const Mesh* SmallestOf(int32_t rank) const;

  // Appends the group numbers of the meshes that contain `rank`.
  void AddGroupNumbersOf(int32_t rank, std::vector<int32_t>& out) const;

  // Returns whether all ranks of the meshes with this group number have
  // recorded a token after `token`. `last_tokens` has the last token of each
  // rank. Ignores meshes with ranks that the run will never have.
  bool AreBeyond(int64_t token, int32_t group_number, RankCount ranks,
                 const std::map<int32_t, int64_t>& last_tokens) const;

 private:
  std::vector<Mesh> meshes_;
};

}  // namespace msitd::compare
