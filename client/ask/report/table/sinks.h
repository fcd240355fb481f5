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

// RFC 4180 with a line feed behind each line. `guards_formulas`: cells that a
// spreadsheet would take for a formula get an apostrophe.
std::unique_ptr<TableSink> MakeCsvSink(ReportSink sink,
                                       bool guards_formulas = false);

// An object for each row, whose members are the columns in their order: texts,
// numbers, truths, and null for an empty cell. NaN and infinities, which JSON
// has not, are the texts that CSV has.
std::unique_ptr<TableSink> MakeJsonLinesSink(ReportSink sink);

// A table in one page that needs no network and runs nothing.
std::unique_ptr<TableSink> MakeHtmlSink(ReportSink sink);

// Rows of a sheet of Excel, the heading included. What is more goes on in the
// next sheet, below the same heading.
inline constexpr uint32_t kSheetRowsMax = 1048576;

// A report of more sheets is refused with FAILED_PRECONDITION: a program that
// opens it would hold all of them.
inline constexpr int kSheetsMax = 16;

// Texts are cut at so many bytes, less than the characters that a cell holds.
inline constexpr size_t kCellBytesMax = 32767;

// Columns are as wide as their widest text, within these bounds, in characters.
inline constexpr size_t kColumnWidthMin = 8;
inline constexpr size_t kColumnWidthMax = 60;

// An Excel workbook. Finite numbers are numbers, with 16 digits; texts, NaN and
// infinities are texts; a formula is a text as well. The heading stays in view
// and has filters. Memory does not grow with the rows: they wait in files
// without a name in TMPDIR, or /tmp.
std::unique_ptr<TableSink> MakeXlsxSink(
    ReportSink sink, uint32_t sheet_rows_max = kSheetRowsMax);

// The same with several tables: each Begin is that of the sheet with the next
// of `names`.
std::unique_ptr<TableSink> MakeXlsxSheetsSink(
    ReportSink sink, std::vector<std::string> names,
    uint32_t sheet_rows_max = kSheetRowsMax);

}  // namespace msitd::ask
