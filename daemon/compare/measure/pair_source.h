// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/shard/assembly.h"
#include "storage/face/run_reader.h"

// Where a side of a pair is read from.
namespace msitd::compare {

// Returns `side` of a pair, a tensor that the matcher found in `run`. Looks up
// its shards, or the parts of a shard, if the matcher has not kept them.
//
// Errors: those of the reader and of LoadShards, which name the side; CANCELLED
// once the observer says so.
absl::StatusOr<TensorSource> StoredSource(const LogicalTensor& tensor,
                                          std::string_view side,
                                          storage::RunReader& run,
                                          WorkObserver& observer);

// Returns the same for a tensor whose parts are read ahead.
TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         storage::RunReader& run, const PartsAhead& ahead);

}  // namespace msitd::compare
