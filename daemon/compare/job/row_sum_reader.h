// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/judge/error_shape.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/judge/row_sums.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// The remaining amount of data that may be read for the row sums of a group.
// Errors beyond these limits are not explained.
struct RowSumBudget {
  int pairs = 64;
  uint64_t bytes = uint64_t{64} << 20;  // The total of both runs.
};

// Results with more channels are not read.
inline constexpr uint64_t kSlopesMax = uint64_t{1} << 17;

// The error of an op's output without the part that follows from row sums.
struct ErrorBesideSums {
  RowMetrics metrics;
  ErrorShape shape;
};

// Returns whether the rows of `input` and `output` correspond: the shapes
// differ at most in the last dimension.
bool HasRowsOf(const TensorPair& input, const TensorPair& output);

// Reads the input and the output of an op, and returns `metrics`, the metrics
// of the output, without the part of its error that follows from the sums of
// the input rows (row_sums.h).
//
// The slopes that predict a row are fitted to other rows, and `slopes` is
// replaced with those of all rows. If the rows do not determine the slopes
// (RowSumFit), uses `slopes`, which the op had at an earlier token; what the
// errors of these may account for is then left out, too. An op
// that receives values of a wider type than its output rounds them to the type
// of the output first. `rounding` is the largest relative error that
// roundings of the input can have.
//
// Errors: FAILED_PRECONDITION if a type is not a float of 16 bits or more, if
// the sums cannot be those of rounded rows (MayBeRoundedSums), if the rows do
// not determine the slopes and there are none, or if more than
// kRemainingShareMax (later: kRemainingShareLaterMax) of the error remains;
// RESOURCE_EXHAUSTED if the tensors exceed the budget or kSlopesMax; CANCELLED
// if the observer returns it; those of StoredSource and TensorStream.
absl::StatusOr<ErrorBesideSums> ReadWithoutRowSums(
    const TensorPair& input, const TensorPair& output,
    const RowMetrics& metrics, double rounding, const PairRuns& runs,
    RowSumBudget& budget, RowSlopes& slopes, WorkObserver& observer);

}  // namespace msitd::compare
