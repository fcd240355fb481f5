// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/merge/run_share.h"

namespace msitd::storage {

// Maximum number of sources of a run.
inline constexpr size_t kMergedPlacesMax = 4096;

// Reads a run whose records are spread over several places as one run. Usually
// each rank is in one place, so primary order within each place is also primary
// order overall. Ranks that several places have are merged by token, if no
// token has records in two places (split_rank.h). Only then are the places
// queried for coordinates when the run is opened.
//
// There must be at least one share, and the runs of the shares must receive no
// more tensors. `name` is the name of the run. Blocks on all shares.
//
// Errors: those of FindSplitRanks; those of the readers, with the place.
absl::StatusOr<std::unique_ptr<RunReader>> MergeRun(
    std::string name, std::vector<RunShare> shares);

}  // namespace msitd::storage
