// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/env/ballast.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/store.h"

namespace msitd::storage {

// Directories of the files of a store, below its own directory.
std::string SegmentDirectory(const std::string& directory);
std::string IndexDirectory(const std::string& directory);

// Refuses segments without an index: DATA_LOSS if a file of `directory` is not
// empty. Every frame would be treated as one of a deleted run.
absl::Status CheckNoSegments(Env& env, const std::string& directory);

// Refuses an index that is not in the state in which it was left: DATA_LOSS if
// RocksDB would treat it as a new one, or if it has lost entries. The index
// must not be open. Writes nothing.
absl::Status CheckIndex(const StoreOptions& options, Env& env);

// Opens the index of a store whose directories exist. With `creates`, creates
// the index if it does not exist.
absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenIndex(
    const StoreOptions& options, Env& env, Ballast& ballast, bool creates);

}  // namespace msitd::storage
