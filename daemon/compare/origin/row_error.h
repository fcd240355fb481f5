// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_service.pb.h"

// How wrong a tensor is, as one number that can be set against that of another.
namespace msitd::compare {

// Returns the error of the target of `row`, which has its verdict:
//  - `nl2` as a rule;
//  - +Inf if a NaN or an infinity has no counterpart, and for indices and masks
//    that differ;
//  - 1 if nothing is known but that the row fails;
//  - NaN if the error is not known: for rows that were not compared, or that
//    fail by their shape alone.
double ErrorOf(const v1::ComparisonRow& row, const RowMetrics& metrics);

// True if the row fails by its shape alone, as a shard does beside a whole.
bool FailsByShape(const v1::ComparisonRow& row);

// Returns the error that rounding to `type`, by one op or a few, may make.
double RoundingErrorOf(v1::DType type);

}  // namespace msitd::compare
