// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// Writes what dump.json says of one record: a tensor with its statistics, taken
// as msprobe takes them, or a value.
void WriteMsprobeLeaf(const MsprobeRow& row, JsonWriter& out);

}  // namespace msitd::write
