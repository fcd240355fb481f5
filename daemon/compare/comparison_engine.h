// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/compare/comparison_observer.h"
#include "daemon/compare/matcher.h"
#include "daemon/compare/pair_reader.h"
#include "daemon/compare/policy.h"
#include "daemon/compare/required_tolerances.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/chunk_store.h"
#include "storage/types.h"

namespace msitd::compare {

// What is compared, and what passes.
struct ComparisonPlan {
  std::string golden_run;
  std::string target_run;
  storage::TensorSelector selector;
  Policy policy;
};

// Makes the rows of one comparison. A tensor that cannot be read or compared
// gives a row that says so; the comparison goes on.
//
// Made for one comparison and used by one thread. Holds two parts and the
// tensors of one rank and token (kGroupTensorsMax), however large the runs are.
class ComparisonEngine {
 public:
  // All three must outlive the engine.
  ComparisonEngine(storage::ChunkStore& store, const ComparisonPlan& plan,
                   ComparisonObserver& observer)
      : store_(store), plan_(plan), observer_(observer), reader_(store) {}

  // Errors: CANCELLED once the observer says so; those of the matcher, of the
  // index and of the observer.
  absl::Status Run();

 private:
  absl::StatusOr<uint64_t> CountGolden();
  absl::Status CompareGroup(const TensorGroup& group);
  // CANCELLED is the only error; everything else becomes a verdict.
  absl::Status Judge(const TensorPair& pair, v1::ComparisonRow& row);
  absl::Status Measure(const TensorPair& pair, v1::ComparisonRow& row);
  absl::StatusOr<PairMeasurement> ReadMetrics(
      const TensorPair& pair, const compute::ElementRequest& request);
  // Judges two tensors with equal bytes.
  void PassEqual(const TensorPair& pair, v1::ComparisonRow& row) const;
  // What the policy asks of a pair.
  Verification VerificationOf(const TensorPair& pair) const;
  absl::Status EmitRow(v1::ComparisonRow row);

  storage::ChunkStore& store_;
  const ComparisonPlan& plan_;
  ComparisonObserver& observer_;
  PairReader reader_;
  RequiredTolerances required_tolerances_;
  int64_t row_count_ = 0;
};

// Adds `row` to the counts of `comparison`, and makes it the first divergence
// if it is a FAIL that executed before the one so far: smallest token, then
// sequence, then rank.
void AccountRow(const v1::ComparisonRow& row, v1::Comparison& comparison);

}  // namespace msitd::compare
