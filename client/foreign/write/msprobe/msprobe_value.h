// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// Writes the description of a value that is not a tensor in dump.json: `null`,
// or an object with its type. A value of kind other is identified by its text,
// in the form that Python's repr returns for a slice, a device, a size, a
// memory format, a reduction operation, or a dict or list of constants, such as
// a process group. Any other text is its own type.
void WriteMsprobeValue(const MsprobeRow& row, JsonWriter& out);

// Writes a value as plain JSON, without its type.
void WritePlainValue(const MsprobeRow& row, JsonWriter& out);

}  // namespace msitd::write
