// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "storage/archive/object_store.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"

namespace msitd::archive {

// What became of the comparisons whose target is a run that is copied.
struct CopiedComparisons {
  uint64_t count = 0;  // Copied, or there before.
  // Not copied: they are still running, are damaged, or find no room.
  uint64_t left_count = 0;
  uint64_t sent_bytes = 0;
  std::vector<std::string> problems;  // The first of those not restored.
};

// Puts the comparisons of a run of the store that have ended beside the run in
// an archive.
absl::StatusOr<CopiedComparisons> ArchiveComparisons(
    storage::Comparisons& comparisons, storage::ObjectStore& store,
    const std::string& run, storage::StopCheck stop);

struct RestoredPlace {
  storage::ObjectStore& store;  // Of the folder of runs.
  std::string archived_run;
  std::string run;  // Its name here, where it is.
  access::Caller caller;
};

// The inverse. A comparison keeps its number if no other has had it. One that
// is here already is left as it is. One for which the store has no room is left
// out, and no other is removed for it.
absl::StatusOr<CopiedComparisons> RestoreComparisons(
    const RestoredPlace& place, storage::Comparisons& comparisons,
    storage::StopCheck stop);

}  // namespace msitd::archive
