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

// What a row says of its pair, apart from how it is judged.
namespace msitd::compare {

// Makes `row` that of `pair`, with both sides described and no verdict yet.
void DescribePair(const TensorPair& pair, std::string_view golden_run,
                  std::string_view target_run, v1::ComparisonRow& row);

// Adds the target call to the reason of a row that does not pass, such as
// `; target call 5`, if it is not the golden one and no mapping names it.
void AddTargetCall(const TensorPair& pair, v1::ComparisonRow& row);

// Sets the fields that come from a summary.
void AddSummary(const Summary& summary, v1::ComparedTensor& out);

// Returns why the shapes of a pair do not agree, such as
// `shape: target [3,2], golden [4,2]`, and how the sides were put together.
std::string ShapeDifference(const LogicalTensor& target,
                            const LogicalTensor& golden,
                            std::string_view layout_hint);

// Returns where the worst row and channel are, such as
// `; worst channel 17: 1`, of the metrics that the predicate bounds and that
// keep it from holding. Empty if there is none. `shape` is that of the golden
// tensor.
std::string WorstPlaces(const predicate::Predicate& predicate,
                        const RowMetrics& metrics,
                        const compute::PairMetrics& pair,
                        const compute::ElementMetrics& elements,
                        std::span<const int64_t> shape);

// Returns the defined metrics in the wire format of a row. Overwrites the
// metrics of `row`, which is there to be given again: its memory is reused.
std::string EncodeMetrics(const RowMetrics& metrics, v1::ComparisonRow& row);

// Returns `[2,3]`; `[]` for a scalar.
std::string ShapeText(std::span<const int64_t> shape);

// Returns where the largest difference is and what is there, such as
// `largest difference at [0,5]: target 3.5, golden 1.25`; empty if there is
// none. Integers have all their digits. The metrics are of every `step`-th
// element.
std::string LargestDifference(const compute::PairMetrics& metrics,
                              const LogicalTensor& target,
                              const LogicalTensor& golden, uint64_t step = 1);

// Returns the two values there, such as `target 3, golden 1`, for sides with
// integers.
std::string IntegersOf(const compute::PairMetrics& metrics);

}  // namespace msitd::compare
