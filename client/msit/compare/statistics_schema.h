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

// Returns msit's report of statistics: the differences of the maxima, minima,
// means and L2 norms of each pair, absolute and relative to golden, in float32.
// A cell is empty if a side lacks the number, or if the result is NaN.
// `is_compat`: omits such rows, and those with an infinity.
std::unique_ptr<ask::TableSchema> MakeStatisticsSchema(bool is_compat,
                                                       StatisticsSides sides);

// Returns the statistics.csv of a tensor of a torch model, and the number of
// its row; in msit's own report only the file.
std::string StatisticsPath(const DumpSide& side, const TensorKey& key,
                           bool is_compat);

}  // namespace msitd::msit_command
