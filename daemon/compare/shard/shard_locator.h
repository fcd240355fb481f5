// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Finds the shard that contains an element of a tensor. Borrows the shards,
// which are those of one term of the grid.
class ShardLocator {
 public:
  struct Location {
    size_t shard = 0;
    // Number of the element in the shard, in row-major order.
    uint64_t element = 0;
  };

  ShardLocator(const ShardGrid& grid,
               std::span<const storage::TensorInfo> shards);

  // Locates an element by its row-major number, which is below element_count().
  Location Find(uint64_t element) const;

  uint64_t element_count() const;

 private:
  // The cuts of the tensor along one axis.
  struct Cuts {
    size_t dim;
    size_t stride;  // Distance of shards that are neighbors along the axis.
    std::vector<ShardStretch> stretches;
    // Where the stretches begin in the tensor, followed by the end of the last
    // one.
    std::vector<int64_t> begins;
  };

  const std::span<const storage::TensorInfo> shards_;
  std::vector<int64_t> shape_;  // Shape of the whole tensor.
  std::vector<Cuts> cuts_;
};

}  // namespace msitd::compare
