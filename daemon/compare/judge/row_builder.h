// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/predicate/predicate.h"
#include "msitd/v1/comparison_service.pb.h"

// Fills the parts of a row that describe its pair and its metrics.
namespace msitd::compare {

// Replaces `row` with a description of both sides of `pair`, without a verdict.
// `golden_run` and `target_run` are the names of the runs.
void DescribePair(const TensorPair& pair, std::string_view golden_run,
                  std::string_view target_run, v1::ComparisonRow& row);

// Appends the target call to the reason of a row that does not pass, such as
// `; target call 5`. Does nothing if both calls have the same number, or if a
// mapping paired the tensors.
void AddTargetCall(const TensorPair& pair, v1::ComparisonRow& row);

// Sets the fields that a summary provides.
void AddSummary(const Summary& summary, v1::ComparedTensor& out);

// Returns why the shapes of a pair do not agree, such as
// `shape: target [3,2], golden [4,2]`, and how the sides were assembled from
// shards. `layout_hint` is a layout to suggest, or empty.
std::string ShapeDifference(const LogicalTensor& target,
                            const LogicalTensor& golden,
                            std::string_view layout_hint);

// Returns the positions of the worst row and channel for the metrics that
// exceed their bounds in the predicate, such as `; worst channel 17: 1`. Empty
// if there are none. `shape` is that of the golden tensor.
std::string WorstPlaces(const predicate::Predicate& predicate,
                        const RowMetrics& metrics,
                        const compute::PairMetrics& pair,
                        const compute::ElementMetrics& elements,
                        std::span<const int64_t> shape);

// Returns a shape as text, such as `[2,3]`, or `[]` for a scalar.
std::string ShapeText(std::span<const int64_t> shape);

// Returns the position of the largest difference and the values at it, such as
// `largest difference at [0,5]: target 3.5, golden 1.25`. Empty if nothing
// differs. Integers have all their digits. The metrics must be those of every
// `step`-th element.
std::string LargestDifference(const compute::PairMetrics& metrics,
                              const LogicalTensor& target,
                              const LogicalTensor& golden, uint64_t step = 1);

// Returns the values at the largest difference, such as `target 3, golden 1`.
// Both sides must have integers.
std::string IntegersOf(const compute::PairMetrics& metrics);

}  // namespace msitd::compare
