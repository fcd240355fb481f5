// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/shard/shard_grid.h"
#include "daemon/compare/work_observer.h"
#include "storage/face/types.h"

// Reads the sample (protos/base/sample.h) of a tensor that is assembled from
// shards. Each sampled element is read from the shard that contains it.
namespace msitd::compare {

// Reads the sample of one term of a grid into `out`, which has the size of the
// sample. `shards` are those of the term. `readers` has one reader for each of
// them.
//
// Errors: CANCELLED if the observer ends the comparison, which is checked
// before each part; those of ShardReader.
absl::Status ReadJoinedSample(const ShardGrid& grid,
                              std::span<const storage::TensorInfo> shards,
                              std::span<ShardReader> readers,
                              WorkObserver& observer, std::span<std::byte> out);

}  // namespace msitd::compare
