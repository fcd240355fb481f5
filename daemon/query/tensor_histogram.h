// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compute/histogram.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

struct HistogramSpec {
  int bin_count = 0;  // 1 to compute::kHistogramBinsMax.
  // Finite, and `low` is not above `high`. An absent `low` is the smallest
  // finite element, or `high` if that is less; an absent `high` is the largest
  // finite element, or `low` if that is more.
  std::optional<double> low;
  std::optional<double> high;
};

// Returns how the elements of one tensor spread. Reads its bytes once, or twice
// if it has infinities and a limit is absent; `stop` is asked for every MiB.
// Both limits are 0 if none was given and no element is finite.
//
// Errors: NOT_FOUND (TENSOR_NOT_FOUND); FAILED_PRECONDITION (TENSOR_EXPIRED);
// DATA_LOSS (FRAME_CORRUPT); that of `stop`.
absl::StatusOr<compute::Histogram> ComputeHistogram(
    storage::RunReaders& readers, const TensorKey& key,
    const HistogramSpec& spec, storage::StopCheck stop);

}  // namespace msitd::query
