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

// The outcome for the comparisons whose target is a copied run.
struct CopiedComparisons {
  uint64_t count = 0;  // Copied, or already present.
  // Not copied: still running, damaged, or no room.
  uint64_t left_count = 0;
  uint64_t sent_bytes = 0;
  std::vector<std::string> problems;  // Why the first ones were not restored.
};

// Copies the finished comparisons of a run in the store to the run's copy in an
// archive.
absl::StatusOr<CopiedComparisons> ArchiveComparisons(
    storage::Comparisons& comparisons, storage::ObjectStore& store,
    const std::string& run, storage::StopCheck stop);

struct RestoredPlace {
  storage::ObjectStore& store;  // Of the folder of runs.
  std::string archived_run;
  std::string run;  // The name of the run here.
  access::Caller caller;
};

// Copies comparisons back from an archive. A comparison keeps its number unless
// another one has used it. A comparison that already exists here is left
// unchanged. A comparison for which the store has no room is skipped; no other
// comparison is removed to make room.
absl::StatusOr<CopiedComparisons> RestoreComparisons(
    const RestoredPlace& place, storage::Comparisons& comparisons,
    storage::StopCheck stop);

}  // namespace msitd::archive
