// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msitd {

// How a tensor lies on the ranks of a job, as its framework says. The ranks
// form a mesh; along each dimension of the mesh the tensor is replicated,
// sharded, or a term of a reduction. See Tensor.placement of msitd.v1.
struct Placement {
  enum class Kind : uint8_t { kReplicated, kSharded, kPartial };

  struct MeshDim {
    int32_t size = 1;
    int32_t stride = 1;  // From one rank to the next along it.
    Kind kind = Kind::kReplicated;
    int tensor_dim = 0;     // Of kSharded, from 0.
    std::string reduction;  // Of kPartial: `sum`, `max`.

    friend bool operator==(const MeshDim&, const MeshDim&) = default;
  };

  // The rank at index 0 of all dimensions.
  int32_t first = 0;
  // At least one. If several shard the same dimension of the tensor, the first
  // cuts the tensor, the next cuts the pieces, and so on.
  std::vector<MeshDim> dims;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Reads `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`: the one
// text of a placement. Returns nothing if `text` is not of that form or longer
// than kPlacementBytesMax; if the mesh has more than kMeshDimsMax dimensions or
// a rank above kRankMax; if a stride is not above the reach of all smaller
// ones, so that a rank could occur twice; or if a sharded dimension is not
// below kDimsMax.
std::optional<Placement> ParsePlacement(std::string_view text);

}  // namespace msitd
