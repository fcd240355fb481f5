// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/report/table/table.h"

// The tables that a comparison can be reported as.
namespace msitd::ctl {

// Every row with all that is known of it; `metrics` are those that the daemon
// has itself.
std::unique_ptr<TableSchema> MakeMsitdSchema(std::vector<std::string> metrics);

// What msit's report says of a side and we do not know from the row.
struct MsitSide {
  std::string path;
  std::string op_type;
};
// Null: the path is the name of the tensor, and there is no type.
using MsitSides =
    std::function<MsitSide(const v1::ComparedTensor& side, bool is_golden)>;

// msit leaves rows with other numbers of elements out of its CSV, but not out
// of its workbook: `keeps_all`.
std::unique_ptr<TableSchema> MakeMsitSchema(bool keeps_all,
                                            MsitSides sides = nullptr);

// What the msprobe report takes its rows from.
enum class MsprobeMode { kAll, kSummary, kMd5 };

// Writes the rows with one of `verdicts`, if there are any; it is given all of
// them, since it judges them together. `is_compat`: a row of statistics has the
// result that msprobe gives it, which may be `pass` though the row fails or
// could not be judged.
std::unique_ptr<TableSchema> MakeMsprobeSchema(
    MsprobeMode mode, std::vector<v1::Verdict> verdicts, bool is_compat);

}  // namespace msitd::ctl
