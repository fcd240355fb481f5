// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {

// Returns the index entry for the tensor and part of `record`, which belongs to
// a frame of `run`; nothing if there is none. The entry may have been created
// by an earlier record.
absl::StatusOr<std::optional<IndexValue>> FindEntryOf(
    ChunkIndex& index, RunId run, const chunk::Chunk& chunk,
    const chunk::RecordDescriptor& record);

// As FindEntryOf, for the original of the alias `record`, which `extra` names.
absl::StatusOr<std::optional<IndexValue>> FindOriginalOf(
    ChunkIndex& index, RunId run, const chunk::Chunk& chunk,
    const chunk::RecordDescriptor& record, const chunk::RecordExtra& extra);

}  // namespace msitd::storage
