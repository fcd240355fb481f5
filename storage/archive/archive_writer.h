// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/attachments.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Progress of archiving a run.
struct ArchiveProgress {
  uint64_t entry_count = 0;
  uint64_t entry_total = 0;
  uint64_t sent_bytes = 0;
  uint64_t verified_bytes = 0;  // Bytes that were read back, or found in the
                                // archive.
};

// Receives the progress regularly; an error stops the work.
using ArchiveProgressCall =
    absl::FunctionRef<absl::Status(const ArchiveProgress&)>;

struct ArchiveRequest {
  RunReader* run = nullptr;  // Must be sealed.
  // Attachments of the store of the run; null if the run has no store.
  Attachments* attachments = nullptr;
  ObjectStore* store = nullptr;  // Store of the folder of runs.
  int64_t now_ns = 0;            // Time in nanoseconds since the Unix epoch.
};

// Writes a run to an archive and returns the resulting manifest. Each object
// was read back and has the written bytes, and the manifest was written last.
// After an interruption, call it again: existing objects are not sent again.
//
// An existing manifest is read first, so that correctness does not depend on
// the server to prevent its replacement:
//
// - Another run with that name is not changed (RUN_EXISTS).
// - If the same run is archived again, its objects are read back, and new
//   attachments are added. Data that the store has discarded in the meantime
//   remains in the archive. If objects are damaged, or bytes could not be read
//   the last time, the run is written again, with the data of both sides. A
//   manifest is never replaced by one that has less data.
//
// Tensors and attachments that cannot be read are missing from the archive, and
// the result names them (ArchiveManifest::unreadable).
//
// Uses 128 MiB of memory, and 64 bytes for each distinct part.
//
// Errors: FAILED_PRECONDITION for a run that is not sealed; ALREADY_EXISTS with
// RUN_EXISTS if the archive has another run with that name; DATA_LOSS if the
// archive is damaged and the store cannot repair it; those of both sides. After
// a permanent error (IsPermanentArchiveError), objects that were written by
// this call and are not needed are removed.
absl::StatusOr<ArchiveManifest> WriteArchive(const ArchiveRequest& request,
                                             ArchiveProgressCall progress);

// Returns OK if all objects that the manifest names exist with their sizes.
// Another daemon can prune the archive at any time, and treats objects that no
// manifest names yet as leftovers. WriteArchive therefore checks before and
// after it writes the manifest. A caller that is about to discard the only
// other copy should check once more.
//
// Errors: UNAVAILABLE with SOURCE_FAILED for a missing object; those of the
// store and of `stop`.
absl::Status CheckArchivedObjects(ObjectStore& store,
                                  const ArchiveManifest& manifest,
                                  StopCheck stop);

}  // namespace msitd::storage
