// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Reads the manifest of a run from a folder of runs.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND if there is none; those of
// DecodeManifest; DATA_LOSS for that of a run with another name.
absl::StatusOr<ArchiveManifest> ReadManifest(ObjectStore& store,
                                             std::string_view run);

// Opens an archived run by two requests. Whatever is read is checked: hashes
// are those of the manifest, of the directory and of the entries, in a chain.
//
// Beside the errors of RunReader there are those of the object store. A scan by
// requests of an engine is UNIMPLEMENTED.
absl::StatusOr<std::unique_ptr<RunReader>> OpenArchivedRun(
    std::shared_ptr<ObjectStore> store, std::string_view run);

// The name of each run that may be in a folder of runs, in the order of names:
// it has a folder, but perhaps no manifest yet.
absl::StatusOr<std::vector<std::string>> ListArchivedRuns(ObjectStore& store);

}  // namespace msitd::storage
