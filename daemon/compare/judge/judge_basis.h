// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/judge/pair_plan.h"
#include "daemon/compare/judge/policy.h"
#include "daemon/compare/match/tensor_group.h"
#include "msitd/v1/comparison_service.pb.h"

// The properties of a pair that a verdict depends on and that its row would
// otherwise not show. They are stored with the row, so that StoredRowJudge can
// judge the row by another policy without the tensors.
namespace msitd::compare {

// Sets `judge_basis` of the row of a pair, which must have its verdict. Rows
// for which every property has its default value get no message, as it would be
// most of the size of a small row. `leaves_out_closed` is not changed, because
// only the measurement of the pair shows it.
void AddJudgeBasis(const TensorPair& pair, const PairPlan& plan,
                   bool is_model_input, v1::ComparisonRow& row);

// Returns what the policy requires of the pair of a row. The row must have both
// sides.
Verification VerificationOf(const Policy& policy, const v1::ComparisonRow& row);

// Returns whether a side of a row is statistics.
bool IsOfStatistics(const v1::ComparisonRow& row);

// Returns whether both sides of a row have one type, and hashes that differ.
bool HasOtherHash(const v1::ComparisonRow& row);

}  // namespace msitd::compare
