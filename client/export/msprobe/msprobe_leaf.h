// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/export/msprobe/msprobe_dump.h"
#include "client/export/writer/json_writer.h"

namespace msitd::exports {

// Writes what dump.json says of one record: a tensor with its statistics, taken
// as msprobe takes them, or a value.
void WriteMsprobeLeaf(const MsprobeRow& row, JsonWriter& out);

}  // namespace msitd::exports
