// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Maximum number of sources of a run.
inline constexpr size_t kMergedPlacesMax = 4096;

// Maximum number of shares that are read concurrently.
inline constexpr size_t kSharesAtOnceMax = 32;

// A share of a run: the ranks that are stored in one place.
struct RunShare {
  std::string place;  // Used in errors.
  std::unique_ptr<RunReader> reader;
};

// Reads a run whose ranks are spread over several places as one run. Each rank
// is in one place, so primary order within each place is also primary order
// overall.
//
// There must be at least one share, and the runs of the shares must receive no
// more tensors. `name` is the name of the run. Blocks on all shares.
//
// Errors: FAILED_PRECONDITION (FIELD_INVALID) if a rank is in two places, which
// the message names; those of the readers, with the place.
absl::StatusOr<std::unique_ptr<RunReader>> MergeRun(
    std::string name, std::vector<RunShare> shares);

}  // namespace msitd::storage
