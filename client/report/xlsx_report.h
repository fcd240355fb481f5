// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "client/report/report_writer.h"

namespace msitd::ctl {

// Rows of a sheet of Excel, the heading included. What is more goes on in the
// next sheet, below the same heading.
inline constexpr uint32_t kSheetRowsMax = 1048576;

// A report of more sheets is refused with FAILED_PRECONDITION: a program that
// opens it would hold all of them.
inline constexpr int kSheetsMax = 16;

// Texts are cut at so many bytes, less than the characters that a cell holds.
inline constexpr size_t kCellBytesMax = 32767;

// Makes the report that becomes a sheet: it writes CSV, a line at a time and
// the heading first.
using TableMaker =
    std::function<std::unique_ptr<ReportWriter>(ReportSink sink)>;

// Writes a table as an Excel workbook. Finite numbers are numbers, with 16
// digits; names, shapes, words, NaN and infinities are texts; a formula is a
// text as well. Memory does not grow with the rows: they wait in files without
// a name in TMPDIR, or /tmp.
std::unique_ptr<ReportWriter> MakeXlsxReport(
    const TableMaker& make_table, ReportSink sink,
    uint32_t sheet_rows_max = kSheetRowsMax);

}  // namespace msitd::ctl
