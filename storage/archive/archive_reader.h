// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Reads the manifest of a run from a folder of runs.
//
// Errors: NOT_FOUND with RUN_NOT_FOUND if there is none; those of
// DecodeManifest; DATA_LOSS if it belongs to a run with another name.
absl::StatusOr<ArchiveManifest> ReadManifest(ObjectStore& store,
                                             std::string_view run);

// Counts the entries of an archived run that are lost because of damage.
// Thread-safe.
class LostEntries {
 public:
  // Stands for all entries lost through a damaged directory and damaged
  // indexes.
  static constexpr size_t kNoBlock = std::numeric_limits<size_t>::max();

  // Adds a batch; adding it again has no effect.
  void Add(size_t block, uint64_t entry_count, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  uint64_t entry_count() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the first error; OK if nothing is lost.
  absl::Status first() ABSL_LOCKS_EXCLUDED(mu_);

  void SetDirectoryDamage(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns why the directory had to be rebuilt; OK if it is intact.
  absl::Status directory_damage() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  std::set<size_t> blocks_ ABSL_GUARDED_BY(mu_);
  uint64_t entry_count_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status first_ ABSL_GUARDED_BY(mu_);
  absl::Status directory_damage_ ABSL_GUARDED_BY(mu_);
};

// Opens an archived run with two requests. All data is verified by a chain of
// hashes, which are in the manifest, in the directory and in the entries.
//
// A damaged directory is rebuilt from the indexes, which takes as long as
// reading all of them. If indexes are damaged as well, opening the run fails
// with DATA_LOSS, unless `lost` is set to count the lost entries.
//
// Errors: those of RunReader and of the object store. A scan by requests of an
// engine is UNIMPLEMENTED. With `lost`, which must outlive the reader, scans
// skip damaged batches of entries and count them there; without it, such a
// batch ends a scan with DATA_LOSS.
absl::StatusOr<std::unique_ptr<RunReader>> OpenArchivedRun(
    std::shared_ptr<ObjectStore> store, std::string_view run,
    LostEntries* lost = nullptr);

// Returns the names of the runs in a folder of runs, ordered by name. A run is
// listed if it has a folder, even if it has no manifest yet.
absl::StatusOr<std::vector<std::string>> ListArchivedRuns(ObjectStore& store);

}  // namespace msitd::storage
