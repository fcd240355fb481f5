// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// A comparison waits for its turn, and a run can be deleted and its name given
// to another one meanwhile. So it keeps the id of either run from the request
// on, and checks it when it opens the run.

// Returns v1.Comparison.golden_run_id of a run as it is now: its id, or those
// of its shares in the order of their sources.
//
// Errors: those of RunReaders::OpenRunAt and of the readers.
absl::StatusOr<std::string> FindRunId(storage::RunReaders& readers,
                                      const storage::RunAddress& run,
                                      const storage::WaitCheck& wait);

// Returns FAILED_PRECONDITION with RUN_REPLACED if the run is another one than
// `id` says. An empty `id` stands for any.
absl::Status CheckRunId(const storage::RunAddress& run, const std::string& id,
                        const std::string& found);

}  // namespace msitd::compare
