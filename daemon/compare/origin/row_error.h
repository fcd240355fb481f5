// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_service.pb.h"

// How wrong a tensor is, as one number that can be set against that of another.
namespace msitd::compare {

inline constexpr double kHiddenMin = 4;

// Returns the error of the target of `row`, which has its verdict:
//  - `nl2` as a rule;
//  - the median `nl2` of the rows or of the channels where that is more than
//    kHiddenMin times as much: then a few that are large hide the others;
//  - +Inf if a NaN or an infinity has no counterpart, for indices and masks
//    that differ, and for complex beside real numbers;
//  - +Inf if the shapes differ, provided that `shapes_count`: otherwise one may
//    be a piece of the other, and the error is not known;
//  - 1 if nothing is known but that the row fails;
//  - NaN if the error is not known, as for rows that were not compared.
double ErrorOf(const v1::ComparisonRow& row, const RowMetrics& metrics,
               bool shapes_count);

// True if the row fails by its shape alone, as a shard does beside a whole.
bool FailsByShape(const v1::ComparisonRow& row);

// Returns the error that rounding to `type`, by one op or a few, may make.
double RoundingErrorOf(v1::DType type);

}  // namespace msitd::compare
