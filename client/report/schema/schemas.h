// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/report/table/table.h"

// The tables that a comparison can be reported as.
namespace msitd::ctl {

// Every row with all that is known of it; `metrics` are those that the daemon
// has itself.
std::unique_ptr<TableSchema> MakeMsitdSchema(std::vector<std::string> metrics);

// msit leaves rows with other numbers of elements out of its CSV, but not out
// of its workbook: `keeps_all`.
std::unique_ptr<TableSchema> MakeMsitSchema(bool keeps_all);

// What the msprobe report takes its rows from.
enum class MsprobeMode { kAll, kSummary, kMd5 };

// Writes the rows with one of `verdicts`, if there are any; it is given all of
// them, since it judges them together.
std::unique_ptr<TableSchema> MakeMsprobeSchema(
    MsprobeMode mode, std::vector<v1::Verdict> verdicts);

}  // namespace msitd::ctl
