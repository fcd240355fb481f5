// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/archive_writer.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// An existing archived copy of the run, which may still have data that the
// store has lost.
struct ArchivedCopy {
  const ArchiveManifest& manifest;
  // Null if the directory of the copy cannot be read.
  RunReader* reader = nullptr;
};

struct PackedRun {
  // Tensors whose bytes may be in `copy` but not in the new objects: the store
  // cannot provide them, and `copy` is damaged where it describes the tensor.
  uint64_t lost_count = 0;
};

// Writes all objects of an archived run except the manifest, and fills
// `manifest` with their descriptions. Each object has been read back on return.
//
// Unreadable bytes (DATA_LOSS) do not stop the work: they are taken from `copy`
// if it has them, and otherwise recorded as unreadable. The result therefore
// never has less data than `copy` if `lost_count` is 0.
//
// On failure, `manifest` names the objects that were begun.
absl::StatusOr<PackedRun> PackRun(const ArchiveRequest& request,
                                  const std::string& folder,
                                  const RunInfo& info, const ArchivedCopy* copy,
                                  ArchiveProgressCall progress,
                                  ArchiveManifest& manifest);

// Writes the attachments of the run that `manifest` does not have yet, and adds
// them to it; an attachment replaces one with the same name. An attachment that
// cannot be read is recorded as unreadable, and the entry of `manifest` with
// its name is kept.
absl::Status PackAttachments(const ArchiveRequest& request,
                             const std::string& folder,
                             ArchiveProgressCall progress,
                             ArchiveManifest& manifest);

}  // namespace msitd::storage
