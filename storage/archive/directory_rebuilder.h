// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

struct RebuiltDirectory {
  ArchiveDirectory directory;
  // Entries that the manifest counts and that are in damaged indexes.
  uint64_t lost_count = 0;
};

// Rebuilds the directory of an archived run whose directory is damaged. Indexes
// contain consecutive batches of entries, and the manifest has the hash of each
// index, so that an intact index can be read without the directory. The
// alternative, a second copy of the directory, would need a new format and
// would not help existing archives.
//
// Loads one index into memory at a time, and takes as long as reading all of
// them.
//
// Errors: DATA_LOSS if no index is intact, or if their contents are not those
// of a run; those of the store, except that a missing object is treated as
// damage.
absl::StatusOr<RebuiltDirectory> RebuildDirectory(
    ObjectStore& store, const std::string& folder,
    const ArchiveManifest& manifest);

}  // namespace msitd::storage
