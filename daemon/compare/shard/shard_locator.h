// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Finds the shard that has an element of a tensor. Borrows the shards, which
// are those of one term of the grid.
class ShardLocator {
 public:
  struct Location {
    size_t shard = 0;
    uint64_t element = 0;  // Of the shard.
  };

  ShardLocator(const ShardGrid& grid,
               std::span<const storage::TensorInfo> shards);

  // `element` is a number in row-major order, below that of the elements.
  Location Find(uint64_t element) const;

  uint64_t element_count() const;

 private:
  // How an axis cuts the tensor.
  struct Cuts {
    size_t dim;
    size_t stride;  // Shards from one to the next along the axis.
    std::vector<ShardStretch> stretches;
    std::vector<int64_t> begins;  // Of the stretches, and the end of the last.
  };

  const std::span<const storage::TensorInfo> shards_;
  std::vector<int64_t> shape_;  // Of the whole.
  std::vector<Cuts> cuts_;
};

}  // namespace msitd::compare
