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

// The sample (protos/base/sample.h) of a tensor that is put together from
// shards: its elements, each where it lies in a shard.
namespace msitd::compare {

// True if what is kept of `shards`, which fit into the grid, has the whole
// sample: the bytes of a shard have all elements, and its own sample every
// step-th, which are those that are asked for if the steps and the cuts of the
// shards go together.
bool HasJoinedSample(const ShardGrid& grid,
                     std::span<const storage::TensorInfo> shards);

// Puts the sample of one term of a grid into `out`, which has its bytes.
// `readers` are those of `shards`, which are of the term.
//
// Errors: CANCELLED once the observer says so, which is asked before every
// part; those of the readers.
absl::Status ReadJoinedSample(const ShardGrid& grid,
                              std::span<const storage::TensorInfo> shards,
                              std::span<ShardReader> readers,
                              WorkObserver& observer, std::span<std::byte> out);

}  // namespace msitd::compare
