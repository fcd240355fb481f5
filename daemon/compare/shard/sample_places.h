// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Maps the sample of a term of a grid (protos/base/sample.h) to the shards of
// this term: for each shard, the elements that are in the sample of the whole.
class SamplePlaces {
 public:
  struct SampledElement {
    size_t number;     // Number of the element in the sample of the whole.
    uint64_t element;  // Number of the element in the shard.
  };

  SamplePlaces(const ShardGrid& grid,
               std::span<const storage::TensorInfo> shards);

  // One list for each shard, by ascending element.
  const std::vector<std::vector<SampledElement>>& places() const {
    return places_;
  }

 private:
  std::vector<std::vector<SampledElement>> places_;
};

// Returns whether the sample of the whole can be formed from the recorded data
// of `shards`, which match the grid. A shard with bytes has all its elements. A
// shard with only a sample has every n-th one; whether they are sufficient
// depends on the step of the whole and on the cuts between the shards.
bool HasJoinedSample(const ShardGrid& grid,
                     std::span<const storage::TensorInfo> shards);

}  // namespace msitd::compare
