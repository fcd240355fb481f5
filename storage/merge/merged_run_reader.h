// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// The most places that a run is read from at once.
inline constexpr size_t kMergedPlacesMax = 4096;

// Shares that are asked at a time.
inline constexpr size_t kSharesAtOnceMax = 32;

// A part of a run: the ranks that lie in one place.
struct RunShare {
  std::string place;  // For errors.
  std::unique_ptr<RunReader> reader;
};

// Reads a run whose ranks lie in several places as one run. Each rank lies in
// one of them; what is in primary order in each of them is so over all.
//
// At least one share, all of them of runs that get no tensors any more. `name`
// is the name of the run. Blocks on all shares.
//
// Errors: FAILED_PRECONDITION (FIELD_INVALID) if a rank lies in two places,
// which are named; those of the readers, with the place.
absl::StatusOr<std::unique_ptr<RunReader>> MergeRun(
    std::string name, std::vector<RunShare> shares);

}  // namespace msitd::storage
