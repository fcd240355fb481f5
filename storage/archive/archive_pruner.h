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
  ObjectStore* store = nullptr;  // Store of the folder of runs.
  // The run whose folder is pruned; empty for the whole archive.
  std::string run;
  // Objects modified later are kept, because a writer may be writing a run, or
  // a reader may be reading one whose manifest was replaced.
  int64_t modified_before_s = 0;  // Since the Unix epoch.
};

struct PrunedObjects {
  uint64_t object_count = 0;
  uint64_t bytes = 0;
  // Folders that were not changed, each with the reason, for users.
  std::vector<std::string> problems;
};

// Removes objects that msitd has written and that nothing refers to: leftovers
// of interrupted archiving, and objects named only by a replaced manifest.
// Keeps everything that a manifest or a comparison names, and objects with
// other names. If a manifest or a comparison cannot be read, the objects that
// it names are unknown, and nothing is removed.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND for a run that has no folder; those of
// the store and of `stop`.
absl::StatusOr<PrunedObjects> PruneArchive(const PruneRequest& request,
                                           StopCheck stop);

}  // namespace msitd::storage
