// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

struct PruneRequest {
  ObjectStore* store = nullptr;  // Of the folder of runs.
  // The run whose folder is pruned; empty for the whole archive.
  std::string run;
  // Objects that changed later stay: somebody may be writing a run, or reading
  // one whose manifest has been replaced.
  int64_t modified_before_s = 0;  // Since the Unix epoch.
};

struct PrunedObjects {
  uint64_t object_count = 0;
  uint64_t bytes = 0;
  // Folders that were left alone, each with the reason, for people.
  std::vector<std::string> problems;
};

// Removes objects that msitd has written and that nothing names: what
// broken-off archiving has left, and what a manifest that was replaced has
// named. Everything that a manifest or a comparison names stays, and so do
// objects of other names. Where a manifest or a comparison cannot be read, it
// is not known what it names, and nothing is removed.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND for a run that has no folder; those of
// the store and of `stop`.
absl::StatusOr<PrunedObjects> PruneArchive(const PruneRequest& request,
                                           StopCheck stop);

}  // namespace msitd::storage
