// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/report/table/cell.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/bounds/bound_share.h"

// Values that reports read from a row.
namespace msitd::ask {

using msitd::MetricOf;

// The custom metric with this name; null if the row has none.
const v1::CustomMetric* CustomMetricOf(const v1::ComparisonRow& row,
                                       std::string_view name);

// Adds columns for the custom metrics of a comparison: value and text of every
// one.
void AddCustomHeadings(const v1::Comparison& comparison,
                       std::vector<std::string>& headings);

// Adds the cells of one row below AddCustomHeadings.
void AddCustomCells(const v1::Comparison& comparison,
                    const v1::ComparisonRow& row, RealStyle style,
                    Cells& cells);

// `value` with so many decimals, as round() of Python has it.
double RoundDecimals(double value, int decimals);

// Returns the mean of all elements as torch computes it in float: NaN with a
// NaN or with infinities of both signs, infinite with other infinities or if
// the sum overflows. For a tensor with a summary and elements.
double MeanOf(const v1::ComparedTensor& tensor);

// `[2, 3]`.
std::string PythonShape(const v1::ComparedTensor& tensor);

// `torch.float32`.
std::string TorchDType(const v1::ComparedTensor& tensor);

// `passed-on` for PASSED_ON; empty if there is none.
std::string OriginText(const v1::ComparisonRow& row);

}  // namespace msitd::ask
