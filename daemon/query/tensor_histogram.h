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
  // Both limits must be finite, and `low` must not exceed `high`. If `low` is
  // absent, it is the smallest finite element, or `high` if that is smaller. If
  // `high` is absent, it is the largest finite element, or `low` if that is
  // larger.
  std::optional<double> low;
  std::optional<double> high;
};

// Returns the distribution of the elements of one tensor. Reads its bytes once,
// or twice if it contains infinities and a limit is absent. Calls `stop` once
// per MiB. Both limits are 0 if none was given and no element is finite.
//
// Errors: NOT_FOUND (TENSOR_NOT_FOUND); FAILED_PRECONDITION (TENSOR_EXPIRED);
// DATA_LOSS (FRAME_CORRUPT); that of `stop`.
absl::StatusOr<compute::Histogram> ComputeHistogram(
    storage::RunReaders& readers, const TensorKey& key,
    const HistogramSpec& spec, storage::StopCheck stop);

}  // namespace msitd::query
