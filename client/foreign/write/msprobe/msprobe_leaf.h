// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// Writes the description of one record in dump.json: a tensor with its
// statistics, computed as in msprobe, or a value.
void WriteMsprobeLeaf(const MsprobeRow& row, JsonWriter& out);

}  // namespace msitd::write
