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

// The tables in which a comparison can be reported.
namespace msitd::trees {
class MsprobeIndex;
}  // namespace msitd::trees

namespace msitd::report {

// The reason for a pair of complex tensors in a report of msit, whose metrics
// do not include the imaginary parts.
inline constexpr char kRealPartsReason[] = "only the real parts are compared.";

struct MsprobeRow;

// Properties of a side in msit's report that are not in the row.
struct MsitSide {
  std::string path;
  std::string op_type;
};
// Null: the path is the name of the tensor, and there is no type.
using MsitSides =
    std::function<MsitSide(const v1::ComparedTensor& side, bool is_golden)>;

// msit omits rows with different numbers of elements from its CSV, but not from
// its workbook, for which `keeps_all` is true.
std::unique_ptr<ask::TableSchema> MakeMsitSchema(bool keeps_all,
                                                 MsitSides sides = nullptr);

// The source of the values in the msprobe report.
enum class MsprobeMode { kAll, kSummary, kMd5 };

// Options of the msprobe report.
struct MsprobeReport {
  MsprobeMode mode = MsprobeMode::kAll;
  // The verdicts of rows to write; all rows if empty.
  std::vector<v1::Verdict> verdicts = {};
  // Rows have the result that msprobe gives them, which may be `pass` although
  // the row fails or could not be judged.
  bool is_compat = false;
  // Tensors that differ have the result of msprobe's rules if these can judge
  // the difference. If false, they are at least `warning`.
  bool trusts_rules = false;
  // Tensors whose dtypes msprobe does not compare have a counterpart, as they
  // do if the user lists the pairs (`-dm`).
  bool pairs_all_dtypes = false;
  MsprobeRules rules = DefaultMsprobeRules();
  // Adds a column if it has stacks. Must outlive the schema. Null for none.
  const MsprobeStackTable* stacks = nullptr;
  // The dumps from which both runs were imported. If they are set, the report
  // has their statistics, names of files and stacks, instead of those of the
  // runs. Must outlive the schema. Null if only the runs are known.
  const trees::MsprobeIndex* target_dump = nullptr;
  const trees::MsprobeIndex* golden_dump = nullptr;
  // Called with each row that is written. May be null.
  std::function<void(const MsprobeRow& row)> on_row = nullptr;
};
// Requires all rows, because the rows of an entry are judged together.
std::unique_ptr<ask::TableSchema> MakeMsprobeSchema(MsprobeReport report);

// Writes a text: the first row of the msprobe report that fails, and advice
// about it.
std::unique_ptr<ask::ReportWriter> MakeAdviceReport(MsprobeReport report,
                                                    ask::ReportSink sink);

}  // namespace msitd::report
