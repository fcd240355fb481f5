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
// lies. The shards are those of the term.
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
  std::vector<std::vector<Place>> places_;
};

// True if what is kept of `shards`, which fit into the grid, has the whole
// sample. A shard with bytes has all its elements. A shard with a sample alone
// has every step-th one; whether those are the ones needed depends on the step
// of the whole and on how the shards are cut.
bool HasJoinedSample(const ShardGrid& grid,
                     std::span<const storage::TensorInfo> shards);

}  // namespace msitd::compare
