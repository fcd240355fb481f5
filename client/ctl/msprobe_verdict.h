// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/report_writer.h"
#include "msitd/v1/comparison_service.pb.h"

// The columns of msprobe's report that follow from several values.
namespace msitd::ctl {

struct MsprobeVerdict {
  std::string result;    // pass, warning or error.
  std::string messages;  // A JSON list.
};

// Judges the rows of one call of one op together. Rows are in order, inputs
// before outputs.
std::vector<MsprobeVerdict> JudgeEntry(
    const std::vector<v1::ComparisonRow>& rows, MsprobeMode mode);

// Max, min, mean and norm of target and golden, NaN and infinities included;
// nothing where a side has none.
using Statistic = std::pair<std::optional<double>, std::optional<double>>;
std::array<Statistic, 4> StatisticsOf(const v1::ComparisonRow& row);

// True if a side has its statistics, which a sum has that was read whole, or
// both have.
bool HasStatistics(const v1::ComparedTensor& side);
bool HasStatistics(const v1::ComparisonRow& row);

struct StatisticsDifference {
  std::string difference;
  std::string relative;
  // Of `relative` where it ends with %, in percent.
  std::optional<double> percent;
};

// `are_known`: see HasStatistics.
StatisticsDifference DifferenceOf(std::optional<double> target,
                                  std::optional<double> golden, bool are_known);

}  // namespace msitd::ctl
