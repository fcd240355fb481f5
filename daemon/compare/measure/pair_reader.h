// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/pair_measurement.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/view/any_order.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/element_metrics.h"
#include "daemon/compute/open_pairs.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// Computes the metrics of pairs from their bytes, part by part. Memory does not
// depend on the size of the tensors, except for pairs in any order, and that of
// views is released after each pair.
//
// Thread-compatible.
class PairReader {
 public:
  // Returns the metrics of two tensors and the element metrics in `request`.
  // Both tensors must have the same number of elements, and both or neither
  // must be complex.
  //
  // Errors: CANCELLED if the observer ends the comparison; DATA_LOSS if the
  // numbers of elements differ; those of TensorStream. All errors except for
  // CANCELLED name the side.
  absl::StatusOr<PairMeasurement> Measure(
      const TensorSource& target, const TensorSource& golden,
      const compute::ElementRequest& request, WorkObserver& observer);

  // Returns the same as if the rows of the target were in the order of the
  // golden tensor; see MatchRows. Both tensors are in memory until it returns.
  // Only one thread of the process at a time compares large ones.
  absl::StatusOr<PairMeasurement> MeasureInAnyOrder(
      const TensorSource& target, const TensorSource& golden,
      const compute::ElementRequest& request, const AnyOrder& any_order,
      WorkObserver& observer);

  // Returns the same for two tensors of one rank with one part each. `ahead`
  // must have both parts.
  static absl::StatusOr<PairMeasurement> MeasureAhead(
      const storage::TensorInfo& target, const storage::TensorInfo& golden,
      const PairAhead& ahead, const compute::ElementRequest& request,
      WorkObserver& observer);

 private:
  struct WholeTensor;

  absl::StatusOr<PairMeasurement> MeasureStreams(
      const TensorSource& target, const TensorSource& golden,
      const compute::ElementRequest& request, WorkObserver& observer);

  // Reads all elements of a tensor, and its summary if that is computed.
  absl::StatusOr<WholeTensor> ReadWhole(const TensorSource& source,
                                        StreamBuffers& buffers,
                                        WorkObserver& observer);

  StreamBuffers target_buffers_;
  StreamBuffers golden_buffers_;
};

}  // namespace msitd::compare
