// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/msit/compare/dump_side.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
class TableSchema;
}  // namespace msitd::ask

namespace msitd::report {
struct MsitSide;
}  // namespace msitd::report

namespace msitd::v1 {
class ComparedTensor;
}  // namespace msitd::v1

namespace msitd::msit_command {

// As report::MsitSides.
using StatisticsSides = std::function<report::MsitSide(
    const v1::ComparedTensor& side, bool is_golden)>;

// msit's report of statistics: for each pair how far the maxima, minima, means
// and L2 norms are apart, by the difference and relative to golden, in float32.
// A cell is empty if a side lacks the number, or if the result is NaN.
// `is_compat`: such rows, and those with an infinity, are left out.
std::unique_ptr<ask::TableSchema> MakeStatisticsSchema(bool is_compat,
                                                       StatisticsSides sides);

// The statistics.csv of a tensor of a torch model, and which of its rows; in
// msit's own report the file alone.
std::string StatisticsPath(const DumpSide& side, const TensorKey& key,
                           bool is_compat);

}  // namespace msitd::msit_command
