// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/shard/assembly.h"
#include "storage/chunk_store.h"

// From where a side of a pair is read.
namespace msitd::compare {

// Returns `side` of a pair, a tensor that the matcher found in `run`, with the
// parts that the store has now.
//
// Errors: NOT_FOUND, and ABORTED if it is another one now, both of which name
// the side; those of the store.
absl::StatusOr<TensorSource> StoredSource(const LogicalTensor& tensor,
                                          const std::string& run,
                                          std::string_view side,
                                          storage::ChunkStore& store);

// Returns the same of a tensor whose parts are read ahead.
TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         const PartsAhead& ahead);

}  // namespace msitd::compare
