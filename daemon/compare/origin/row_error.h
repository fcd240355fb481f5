// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_service.pb.h"

// The error of a tensor as a single number, which can be compared with the
// errors of other tensors.
namespace msitd::compare {

// If the median error of rows or channels is more than this many times that of
// the whole tensor, a few large rows or channels hide it.
inline constexpr double kHiddenMin = 4;

// Returns the error of the target of `row`, which must have its verdict:
//
// - `nl2` in general
// - the median `nl2` of the rows or of the channels if the norm of the tensor
//   hides it (kHiddenMin)
// - +Inf if a NaN or an infinity has no counterpart, if indices or masks
//   differ, and if one side is complex and the other real
// - +Inf if the shapes differ and `shapes_count` is true. Otherwise one side
//   can be a piece of the other, and the error is unknown.
// - 1 if it is only known that the row fails
// - NaN if the error is unknown, for example because the pair was not compared
double ErrorOf(const v1::ComparisonRow& row, const RowMetrics& metrics,
               bool shapes_count);

// Returns the `nl2` of a pair, or the median `nl2` of its rows or channels if
// the norm of the whole tensor hides that (kHiddenMin). Returns nullopt if
// `nl2` is undefined.
std::optional<double> MeasuredError(const RowMetrics& metrics);

// Returns whether the row fails and its shapes differ, as those of a shard and
// a whole tensor do.
bool FailsByShape(const v1::ComparisonRow& row);

// Returns the error that one op, or a few, can make by rounding to `type`; 0 if
// the type does not round.
double RoundingErrorOf(v1::DType type);

}  // namespace msitd::compare
