// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "protos/base/summary.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// Statistics of a tensor without bytes are foreign: any of them may be missing,
// rounded, or contradict the others. These functions return only what the
// statistics prove. A device may compute them in the type of the tensor, in
// which the sum and the norm of finite elements overflow. Therefore an infinite
// mean or norm does not prove an infinite element, but an infinite extreme
// does. NaN propagates through all of them.

// A summary that statistics state.
struct StatedSummary {
  // Exact in `count` and the counts of NaN and infinities if `has_counts`.
  // Otherwise, each of these counts is 0 if there are no such elements, and 1
  // or a stated number if there are.
  Summary summary;
  bool has_counts = false;
};

// Returns the summary of a record of kind statistics. nullopt if the statistics
// do not show whether all elements are finite. If they show that there is -Inf,
// they must also show whether there is NaN or +Inf.
std::optional<StatedSummary> StatedSummaryOf(const storage::TensorInfo& tensor);

// The values of a summary that statistics state; nullopt if they do not.
struct StatedValues {
  // True if the tensor has no elements, so that extremes and the mean do not
  // exist.
  bool is_empty = false;
  std::optional<double> count;
  std::optional<double> nan_count;
  std::optional<double> infinity_count;
  std::optional<double> zero_count;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> sum;
  std::optional<double> mean;
  std::optional<double> l1_norm;
  std::optional<double> l2_norm;
};

// Returns the values of a record of kind statistics.
StatedValues StatedValuesOf(const storage::TensorInfo& tensor);

}  // namespace msitd::origin
