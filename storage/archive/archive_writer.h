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
// again. `progress` is told now and then and may end the call by an error.
//
// Takes 128 MiB of memory, and 64 bytes for each distinct part.
//
// Errors: FAILED_PRECONDITION for a run that is not sealed; ALREADY_EXISTS with
// RUN_EXISTS if the archive has another run of that name, or the same with
// other contents; those of both sides.
absl::StatusOr<ArchiveManifest> WriteArchive(
    const ArchiveRequest& request,
    absl::FunctionRef<absl::Status(const ArchiveProgress&)> progress);

}  // namespace msitd::storage
