// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "daemon/compare/comparison_observer.h"
#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/aligned_buffer.h"
#include "storage/chunk_store.h"
#include "storage/types.h"

namespace msitd::compare {

// What the bytes of a pair give.
struct PairMeasurement {
  compute::PairMetrics metrics;
  compute::ElementMetrics elements;
};

// Measures pairs of tensors from their bytes, part by part: one part of either
// side is in memory at a time, however large the tensors are.
//
// Thread-compatible; the store must outlive it.
class PairReader {
 public:
  explicit PairReader(storage::ChunkStore& store) : store_(store) {}

  // Returns the metrics of two tensors with equally many elements, both complex
  // or neither, and the element metrics that are asked for. Both infos have
  // their parts.
  //
  // Errors: CANCELLED once the observer says so; DATA_LOSS for a side whose
  // parts do not make up the tensor; those of ReadPart. All but CANCELLED name
  // the side.
  absl::StatusOr<PairMeasurement> Measure(
      const storage::TensorInfo& target, const storage::TensorInfo& golden,
      const compute::ElementRequest& request, ComparisonObserver& observer);

 private:
  storage::ChunkStore& store_;
  AlignedBuffer target_buffer_;
  AlignedBuffer golden_buffer_;
};

}  // namespace msitd::compare
