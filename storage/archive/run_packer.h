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

// The source of what a run in the store has lost since it was archived, and
// that the archive still has.
struct ArchivedCopy {
  const ArchiveManifest& manifest;
  // Null if the directory of the copy cannot be read.
  RunReader* reader = nullptr;
};

struct PackedRun {
  // Tensors of which `copy` may have bytes that the new objects lack: the store
  // cannot give them, and `copy` is damaged where it describes the tensor.
  uint64_t lost_count = 0;
};

// Writes all objects of an archived run except the manifest, and fills
// `manifest` with what they hold. Each object was read back when this returns.
//
// Bytes that cannot be read (DATA_LOSS) do not end the work: they are taken
// from `copy` if that has them, and otherwise recorded as unreadable. So what
// this writes never has less than `copy` if `lost_count` is 0.
//
// On failure `manifest` names the objects that were begun.
absl::StatusOr<PackedRun> PackRun(const ArchiveRequest& request,
                                  const std::string& folder,
                                  const RunInfo& info, const ArchivedCopy* copy,
                                  ArchiveProgressCall progress,
                                  ArchiveManifest& manifest);

// Writes the attachments of the run that `manifest` does not have yet, and adds
// them to it; one of the same name is replaced. One that cannot be read is
// recorded as unreadable, and `manifest` keeps what it has of that name.
absl::Status PackAttachments(const ArchiveRequest& request,
                             const std::string& folder,
                             ArchiveProgressCall progress,
                             ArchiveManifest& manifest);

}  // namespace msitd::storage
