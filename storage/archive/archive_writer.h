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

// How far an archive has come.
struct ArchiveProgress {
  uint64_t entry_count = 0;
  uint64_t entry_total = 0;
  uint64_t sent_bytes = 0;
  uint64_t verified_bytes = 0;  // Read back, or found there before.
};

// Receives the progress now and then; an error ends the work.
using ArchiveProgressCall =
    absl::FunctionRef<absl::Status(const ArchiveProgress&)>;

struct ArchiveRequest {
  RunReader* run = nullptr;  // Sealed.
  // Of the store that the run lies in; null for a run without.
  Attachments* attachments = nullptr;
  ObjectStore* store = nullptr;  // Of the folder of runs.
  int64_t now_ns = 0;            // Since the Unix epoch.
};

// Writes a run into an archive, and returns what is there then: each object was
// read back and had the bytes that were written, and the manifest came last. A
// call that was broken off is made again: objects that are there are not sent
// again.
//
// The manifest that is there is read first, so nothing depends on the server to
// keep it from being replaced:
//
// - Another run of that name is left alone (RUN_EXISTS).
// - The same run is archived again: its objects are read back, and attachments
//   that are new are added. What the store has given up since stays in the
//   archive. If objects are damaged, or bytes could not be read the last time,
//   the run is written again, with what either side has. A manifest is never
//   replaced by one that has less.
//
// Tensors and attachments that cannot be read are not in the archive, and the
// result names them (ArchiveManifest::unreadable).
//
// Takes 128 MiB of memory, and 64 bytes for each distinct part.
//
// Errors: FAILED_PRECONDITION for a run that is not sealed; ALREADY_EXISTS with
// RUN_EXISTS if the archive has another run of that name; DATA_LOSS if the
// archive is damaged and the store cannot mend it; those of both sides. After
// an error that no later try changes (IsPermanentArchiveError), objects that
// were written in vain are removed.
absl::StatusOr<ArchiveManifest> WriteArchive(const ArchiveRequest& request,
                                             ArchiveProgressCall progress);

// Returns OK if all objects that the manifest names are there with their sizes.
// Another daemon can prune the archive at any time, and objects that no
// manifest names yet look like leftovers to it. WriteArchive therefore checks
// before and after it writes the manifest. A caller that is about to give up
// the only other copy checks once more.
//
// Errors: UNAVAILABLE with SOURCE_FAILED for an object that is not there; those
// of the store and of `stop`.
absl::Status CheckArchivedObjects(ObjectStore& store,
                                  const ArchiveManifest& manifest,
                                  StopCheck stop);

}  // namespace msitd::storage
