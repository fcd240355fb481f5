// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/element_metrics.h"
#include "daemon/compute/open_pairs.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// What the bytes of a pair give.
struct PairMeasurement {
  compute::PairMetrics metrics;
  compute::ElementMetrics elements;
  // For a side that is a sum, because no index has its summary; and for a side
  // that is a sample, of the sampled elements.
  std::optional<Summary> target_summary;
  std::optional<Summary> golden_summary;
  // If the request has closing values, and the pair turns out to be masked
  // scores.
  std::optional<compute::OpenPairs> open;
};

// Measures pairs of tensors from their bytes, part by part: memory does not
// depend on how large the tensors are.
//
// Thread-compatible.
class PairReader {
 public:
  // Returns the metrics of two tensors with equally many elements, both complex
  // or neither, and the element metrics that are asked for.
  //
  // Errors: CANCELLED once the observer says so; those of TensorStream. All but
  // CANCELLED name the side.
  absl::StatusOr<PairMeasurement> Measure(
      const TensorSource& target, const TensorSource& golden,
      const compute::ElementRequest& request, WorkObserver& observer);

  // The same for two recorded tensors of one part each, which `ahead` has.
  static absl::StatusOr<PairMeasurement> MeasureAhead(
      const storage::TensorInfo& target, const storage::TensorInfo& golden,
      const PairAhead& ahead, const compute::ElementRequest& request,
      WorkObserver& observer);

 private:
  StreamBuffers target_buffers_;
  StreamBuffers golden_buffers_;
};

}  // namespace msitd::compare
