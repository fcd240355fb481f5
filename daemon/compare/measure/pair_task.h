// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/measure/pair_reader.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/element_metrics.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// What is to be measured.
struct PairTask {
  const TensorPair* pair = nullptr;  // Both sides are there.
  compute::ElementRequest request = {};
  // Measures the samples of both sides, because one at least lacks bytes.
  bool is_sampled = false;
};

// Measures a pair, from the parts that are read ahead or else from the runs.
//
// Errors: those of PairReader and StoredSource.
absl::StatusOr<PairMeasurement> MeasurePair(
    const PairTask& task, const PairAhead& ahead, storage::RunReader& target,
    storage::RunReader& golden, PairReader& reader, WorkObserver& observer);

}  // namespace msitd::compare
