// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msitd {

// How a tensor lies on the ranks of a job, as its framework says: on a mesh of
// ranks, along each dimension of which the tensor is replicated, sharded, or a
// term of a reduction. See Tensor.placement of msitd.v1.
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
  // At least one; of several that shard one dimension of the tensor, the first
  // cuts the tensor, the next what that makes, and so on.
  std::vector<MeshDim> dims;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Returns `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`, which
// is the only text for the placement.
std::string FormatPlacement(const Placement& placement);

// The inverse of FormatPlacement. Nothing if `text` is not of that form or over
// kPlacementBytesMax; if there are more than kMeshDimsMax dimensions or a rank
// over kRankMax; if a stride does not lead beyond what all smaller ones reach,
// so that ranks could be there twice; or if a dimension of the tensor is not
// below kDimsMax.
std::optional<Placement> ParsePlacement(std::string_view text);

}  // namespace msitd
