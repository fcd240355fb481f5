// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"
#include "storage/face/runs.h"

namespace msitd::archive {

struct RestoreRequest {
  std::shared_ptr<storage::ObjectStore> store;  // Of the folder of runs.
  std::string archived_run;
  std::string run;  // The name of the run here.
  access::Caller caller;
  storage::Runs& runs;
  storage::RunReaders& readers;  // Of the store.
  storage::Attachments& attachments;
  storage::Comparisons& comparisons;
  ingest::IngestPipeline& pipeline;
};

struct RestoredRun {
  // Differences from the archived run, as text for users.
  std::vector<std::string> differences;
  // See v1::ArchiveJob.
  uint64_t comparison_count = 0;
  uint64_t left_comparison_count = 0;
  // Records that were restored without their bytes, or not at all, because the
  // archive does not contain them or because they are damaged.
  storage::UnreadableItems unreadable;
};

// Restores an archived run as a sealed run. Its records pass through the ingest
// pipeline like those of a producer, in the order in which they were originally
// received. Then both runs are compared entry by entry, and the comparisons in
// the archive are restored. Until that is finished the run is marked as being
// restored, and other callers can neither read nor write it. If the restore
// fails, the run is deleted. A run that could not be deleted is replaced by the
// next restore with the same name. `progress` receives the number of records
// read and their total, and can cancel the restore by returning an error.
//
// Damage in the archive does not stop the restore. A tensor with a single part
// whose bytes are damaged keeps its summary and its hash. Anything that cannot
// be kept is skipped. Both cases are counted in the coverage of the rank, as
// truncated and as dropped, so that comparisons of the restored run report it
// as incomplete.
//
// At most kActiveRanksMax ranks have a stream and the entries of a token in
// memory at a time. In addition, the restore needs about 8 MiB and some hundred
// bytes per rank.
//
// Errors: ALREADY_EXISTS with RUN_EXISTS; those of archives and of streams.
absl::StatusOr<RestoredRun> RestoreRun(
    const RestoreRequest& request,
    absl::FunctionRef<absl::Status(uint64_t, uint64_t)> progress);

// Deletes the runs whose restore was interrupted by the end of the daemon. Must
// be called before restores are accepted.
void RemoveBrokenRestores(storage::Runs& runs,
                          ingest::IngestPipeline& pipeline);

}  // namespace msitd::archive
