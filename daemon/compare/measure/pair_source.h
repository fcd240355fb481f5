// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/shard/assembly.h"
#include "storage/face/run_reader.h"

// Sources from which the sides of a pair are read.
namespace msitd::compare {

// Returns the source for a tensor that the matcher found in `run`. `side` is
// "golden" or "target". Looks up the shards of the tensor, or the parts of a
// shard, if they were dropped from memory.
//
// Errors: those of the reader and of LoadShards, with the name of the side;
// CANCELLED if the observer ends the comparison.
absl::StatusOr<TensorSource> StoredSource(const LogicalTensor& tensor,
                                          std::string_view side,
                                          storage::RunReader& run,
                                          WorkObserver& observer);

// Returns the source for a tensor whose parts are read ahead: those of its
// leaves, one after the other.
TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         storage::RunReader& run, const PartsAhead& ahead);

}  // namespace msitd::compare
