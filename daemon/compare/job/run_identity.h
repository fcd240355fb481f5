// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Ids of the runs of a comparison. While a comparison waits in the queue, a run
// can be deleted and its name given to another run. The comparison therefore
// keeps the ids of both runs from its request, and checks them when it opens
// the runs.

// Returns the current value of v1.Comparison.golden_run_id for a run: its id,
// or the ids of its shares in the order of their sources.
//
// Errors: those of RunReaders::OpenRunAt and of the readers.
absl::StatusOr<std::string> FindRunId(storage::RunReaders& readers,
                                      const storage::RunAddress& run,
                                      const storage::WaitCheck& wait);

// Returns FAILED_PRECONDITION with RUN_REPLACED if the id `found` of a run is
// not `id`. An empty `id` accepts any run.
absl::Status CheckRunId(const storage::RunAddress& run, const std::string& id,
                        const std::string& found);

}  // namespace msitd::compare
