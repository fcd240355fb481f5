// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/table.h"
#include "client/foreign/report/msprobe_rules.h"
#include "client/foreign/report/msprobe_stacks.h"

// The tables that a comparison can be reported as.
namespace msitd::report {

struct MsprobeRow;

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
std::unique_ptr<ask::TableSchema> MakeMsitSchema(bool keeps_all,
                                                 MsitSides sides = nullptr);

// What the msprobe report takes its rows from.
enum class MsprobeMode { kAll, kSummary, kMd5 };

// How the msprobe report is made.
struct MsprobeReport {
  MsprobeMode mode = MsprobeMode::kAll;
  // The rows with one of them are written, all if there are none.
  std::vector<v1::Verdict> verdicts = {};
  // A row has the result that msprobe gives it, which may be
  // `pass` though the row fails or could not be judged.
  bool is_compat = false;
  MsprobeRules rules = DefaultMsprobeRules();
  // Rows have the colors of early releases, and two columns more that say so
  // and why.
  bool has_colors = false;
  // Makes a column if it has stacks; must outlive the schema. Null for none.
  const MsprobeStackTable* stacks = nullptr;
  // Told of each row that is written; null for nobody.
  std::function<void(const MsprobeRow& row)> on_row = nullptr;
};
// It is given all rows, since it judges those of an entry together.
std::unique_ptr<ask::TableSchema> MakeMsprobeSchema(MsprobeReport report);

// A text: the first row of the msprobe report that fails, and what to do about
// it.
std::unique_ptr<ask::ReportWriter> MakeAdviceReport(MsprobeReport report,
                                                    ask::ReportSink sink);

}  // namespace msitd::report
