// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/table.h"
#include "client/foreign/report/foreign_schemas.h"

namespace msitd::msit_command {

// An Excel workbook with the sheet and the types of cells that msprobe writes:
// `Requires_grad Consistent` is a truth, other truths and differences of
// statistics are texts, and infinities have no blank in front.
std::unique_ptr<ask::TableSink> MakeProbeWorkbook(ask::ReportSink sink,
                                                  report::MsprobeMode mode);

}  // namespace msitd::msit_command
