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
  // Entries that the manifest counts and that lie in damaged indexes.
  uint64_t lost_count = 0;
};

// Builds the directory of an archived run again, for an archive whose directory
// is damaged. Indexes hold batches of entries one after the other, and the
// manifest has the hash of each index, so an intact index can be read without
// the directory. The alternative, a second copy of the directory, would need a
// new format and would not help archives that exist.
//
// Takes one index into memory at a time, and as long as reading all of them.
//
// Errors: DATA_LOSS if no index is intact, or if they hold what no run does;
// those of the store, except that an object that is missing is damage.
absl::StatusOr<RebuiltDirectory> RebuildDirectory(
    ObjectStore& store, const std::string& folder,
    const ArchiveManifest& manifest);

}  // namespace msitd::storage
