// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/table.h"

// The formats that a table can be written in.
namespace msitd::ask {

// RFC 4180, with a line feed after each line. `guards_formulas`: cells that a
// spreadsheet would treat as a formula are prefixed with an apostrophe.
std::unique_ptr<TableSink> MakeCsvSink(ReportSink sink,
                                       bool guards_formulas = false);

// An object for each row, whose members are the columns in order: texts,
// numbers, truths, and null for an empty cell. NaN and infinities, which JSON
// does not have, are written as in CSV.
std::unique_ptr<TableSink> MakeJsonLinesSink(ReportSink sink);

// A table in one page that needs no network and runs nothing.
std::unique_ptr<TableSink> MakeHtmlSink(ReportSink sink);

// Rows of an Excel sheet, including the heading. Further rows are written to
// the next sheet, below the same heading.
inline constexpr uint32_t kSheetRowsMax = 1048576;

// A report with more sheets is rejected with FAILED_PRECONDITION, because a
// program that opens it would hold all of them.
inline constexpr int kSheetsMax = 16;

// Texts are truncated to this number of bytes, which is less than the
// characters that a cell can hold.
inline constexpr size_t kCellBytesMax = 32767;

// Columns are as wide as their widest text, within these bounds, in characters.
inline constexpr size_t kColumnWidthMin = 8;
inline constexpr size_t kColumnWidthMax = 60;

// An Excel workbook. Finite numbers are numbers with 16 digits. Texts, NaN,
// infinities and formulas are texts. The heading stays visible and has filters.
// Memory use does not grow with the rows, which are held in unnamed files in
// TMPDIR, or /tmp.
std::unique_ptr<TableSink> MakeXlsxSink(
    ReportSink sink, uint32_t sheet_rows_max = kSheetRowsMax);

// The same with several tables: each Begin starts the sheet with the next of
// `names`.
std::unique_ptr<TableSink> MakeXlsxSheetsSink(
    ReportSink sink, std::vector<std::string> names,
    uint32_t sheet_rows_max = kSheetRowsMax);

}  // namespace msitd::ask
