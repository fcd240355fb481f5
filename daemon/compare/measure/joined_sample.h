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

// Puts the sample of one term of a grid into `out`, which has its size.
// `shards` are those of the term, and `readers` has a reader for each.
//
// Errors: CANCELLED once the observer says so, which is asked before every
// part; those of the readers.
absl::Status ReadJoinedSample(const ShardGrid& grid,
                              std::span<const storage::TensorInfo> shards,
                              std::span<ShardReader> readers,
                              WorkObserver& observer, std::span<std::byte> out);

}  // namespace msitd::compare
