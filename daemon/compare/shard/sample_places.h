// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Where each element of the sample (protos/base/sample.h) of a term of a grid
// lies. Borrows the shards, which are those of the term.
class SamplePlaces {
 public:
  struct Place {
    size_t number;     // In the sample of the whole.
    uint64_t element;  // Of the shard.
  };

  SamplePlaces(const ShardGrid& grid,
               std::span<const storage::TensorInfo> shards);

  // By shard; elements ascend.
  const std::vector<std::vector<Place>>& places() const { return places_; }

 private:
  // How an axis cuts the tensor.
  struct Cuts {
    size_t dim;
    size_t stride;  // Shards from one to the next along the axis.
    std::vector<ShardStretch> stretches;
    std::vector<int64_t> begins;  // Of the stretches, and the end of the last.
  };

  void Add(uint64_t element);

  const std::span<const storage::TensorInfo> shards_;
  std::vector<int64_t> shape_;  // Of the whole.
  std::vector<Cuts> cuts_;
  std::vector<std::vector<Place>> places_;
  size_t sample_count_ = 0;
};

// True if what is kept of `shards`, which fit into the grid, has the whole
// sample. A shard with bytes has all its elements. A shard with a sample alone
// has every step-th one; whether those are the ones needed depends on the step
// of the whole and on how the shards are cut.
bool HasJoinedSample(const ShardGrid& grid,
                     std::span<const storage::TensorInfo> shards);

}  // namespace msitd::compare
