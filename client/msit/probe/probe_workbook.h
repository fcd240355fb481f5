// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace msitd::ask {
class TableSink;
}  // namespace msitd::ask

namespace msitd::msit_command {

// An Excel workbook with the sheet and the types of cells that msprobe writes:
// `Requires_grad Consistent` is a truth, other truths and differences of
// statistics are texts, and infinities have no blank in front. `is_summary`:
// the report compares statistics.
std::unique_ptr<ask::TableSink> MakeProbeWorkbook(
    std::function<absl::Status(std::string_view)> sink, bool is_summary);

}  // namespace msitd::msit_command
