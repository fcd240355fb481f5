// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// Writes what dump.json says of a value, which is no tensor: `null`, or an
// object with its type. A value of kind other is known by its text, which is
// what Python's repr writes of a slice, a device, a size, a memory format, an
// operation of a reduction, or of a dict or list of constants, as of a group of
// processes. Any other text is its own type.
void WriteMsprobeValue(const MsprobeRow& row, JsonWriter& out);

// Writes a value as JSON has it, without its type.
void WritePlainValue(const MsprobeRow& row, JsonWriter& out);

}  // namespace msitd::write
