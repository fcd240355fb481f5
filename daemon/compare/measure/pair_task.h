// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/measure/pair_reader.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/view/any_order.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/element_metrics.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// A pair to measure, and the metrics to compute.
struct PairTask {
  // Has both sides. Never null when the task is measured.
  const TensorPair* pair = nullptr;
  compute::ElementRequest request = {};
  // Compare the samples of both sides, because at least one side lacks bytes.
  bool is_sampled = false;
  // Match the rows of both sides first, because they may be in any order.
  std::optional<AnyOrder> any_order = {};
};

// Measures a pair from the parts that are read ahead or, if there are none,
// from the runs.
//
// Errors: those of PairReader and StoredSource.
absl::StatusOr<PairMeasurement> MeasurePair(
    const PairTask& task, const PairAhead& ahead, storage::RunReader& target,
    storage::RunReader& golden, PairReader& reader, WorkObserver& observer);

}  // namespace msitd::compare
