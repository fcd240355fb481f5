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
  std::string run;  // Its name here.
  access::Caller caller;
  storage::Runs& runs;
  storage::RunReaders& readers;  // Of the store.
  storage::Attachments& attachments;
  storage::Comparisons& comparisons;
  ingest::IngestPipeline& pipeline;
};

struct RestoredRun {
  // In what it differs from the archived one, for people.
  std::vector<std::string> differences;
  // See v1::ArchiveJob.
  uint64_t comparison_count = 0;
  uint64_t left_comparison_count = 0;
  // Records that came without bytes, or not at all, because the archive does
  // not have them or has them damaged.
  storage::UnreadableItems unreadable;
};

// Makes a sealed run of an archived one: its records come in as those of a
// producer do, in the order in which they were received once. Then both are
// compared, entry by entry, and the comparisons beside it are restored. Until
// then the run is marked as one that is being restored, and nobody else reads
// it or writes to it. If it fails, the run is deleted again; what could not be
// deleted is replaced by the next restore of that name. `progress` is told how
// many records were read, and of how many, and may end the call by an error.
//
// Damage in the archive does not end the call. A tensor of one part whose bytes
// are damaged keeps its summary and its hash; what cannot be kept is left out.
// Both are counted in the coverage of the rank, as truncated and as dropped, so
// that a comparison of the restored run says that it is not whole.
//
// At most kActiveRanksMax ranks have a stream at a time, with the entries of a
// token of each. Memory beyond that: about 8 MiB, and some hundred bytes for
// each rank.
//
// Errors: ALREADY_EXISTS with RUN_EXISTS; those of archives and of streams.
absl::StatusOr<RestoredRun> RestoreRun(
    const RestoreRequest& request,
    absl::FunctionRef<absl::Status(uint64_t, uint64_t)> progress);

// Deletes the runs whose restore was broken off by the end of the daemon.
// Called before anybody may restore.
void RemoveBrokenRestores(storage::Runs& runs,
                          ingest::IngestPipeline& pipeline);

}  // namespace msitd::archive
