// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/env/env.h"
#include "storage/rebuild/index_rebuild.h"
#include "storage/store.h"

namespace msitd::storage {

// A store that is read through an index of its own, because the index that lies
// in its directory is damaged or lost.
struct RecoveredStore {
  std::unique_ptr<Store> store;
  RebuildReport report;  // How its index was made.
};

// Opens a store for reading and changes nothing in its directory. A user may
// need a run before there is time for a repair, or may want to see the
// remaining runs before the old index is replaced.
//
// The index is built from the segments and the readable parts of the old index,
// as by RebuildIndex, but in a temporary directory below `parent` that is
// removed with the store. Payloads are not checked first: reading a tensor
// checks its bytes. Blocks as long as it takes to read the heads of all frames,
// and all payloads if the old index does not record which bytes were given up.
//
// The store behaves as follows:
// - Runs, tensors, attachments and comparisons can be read.
// - Comparisons can be added and deleted. These changes are lost with the
// store.
// - All other calls that write fail with UNAVAILABLE (STORAGE_FAILED), and the
//   steps of Upkeep do nothing. `refusal` in Stats() gives the reason.
// - Segment files are listed once, when the store is opened.
//
// Other readers can have the store open at the same time.
//
// Errors: those of RebuildIndex; those of the temporary directory.
absl::StatusOr<RecoveredStore> OpenRecovered(const StoreOptions& options,
                                             const std::string& parent,
                                             Env& env);

}  // namespace msitd::storage
