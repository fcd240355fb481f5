// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msitd {

// How a tensor is distributed over the ranks of a job, as reported by its
// framework. The ranks form a mesh; along each dimension of the mesh the tensor
// is replicated, sharded, or a term of a reduction. See Tensor.placement of
// msitd.v1.
struct Placement {
  enum class Kind : uint8_t { kReplicated, kSharded, kPartial };

  struct MeshDim {
    int32_t size = 1;
    int32_t stride = 1;  // From one rank to the next along it.
    Kind kind = Kind::kReplicated;
    int tensor_dim = 0;     // For kSharded, from 0.
    std::string reduction;  // For kPartial: `sum`, `max`.

    friend bool operator==(const MeshDim&, const MeshDim&) = default;
  };

  // The rank at index 0 of all dimensions.
  int32_t first = 0;
  // At least one dimension. If several dimensions shard the same dimension of
  // the tensor, the first one cuts the tensor, the next one cuts the pieces,
  // and so on.
  std::vector<MeshDim> dims;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Parses `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`, the
// canonical text of a placement. Returns nothing in these cases:
// - `text` does not have this form or is longer than kPlacementBytesMax;
// - the mesh has more than kMeshDimsMax dimensions or a rank above kRankMax;
// - a stride is not above the extent of all smaller strides, so that a rank
//   could occur twice;
// - a sharded dimension is not below kDimsMax.
std::optional<Placement> ParsePlacement(std::string_view text);

}  // namespace msitd
