// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

// What the documents of a run say of records that are written again: what no
// record has, such as the mesh of a DTensor, the source line of a frame or the
// module that called a function.
namespace msitd::write {

// Longest document that is looked into; of a longer one, nothing is said again.
inline constexpr int64_t kMsprobeSaidBytesMax = int64_t{64} << 20;

// Fills `said` of the rows, and of the dump, by the document called `name`:
// dump.json, debug.json, stack.json or construct.json. Only what belongs to an
// entry of the rows is kept, and for construct.json, what holds it. What is
// before an error is kept. INVALID_ARGUMENT for what cannot be read.
absl::Status TakeMsprobeDocument(std::string_view name, std::string text,
                                 MsprobeDump& dump);

// Writes JSON that a document had, without the names of files.
void WriteAsSaid(const std::string& json, JsonWriter& out);

// Writes what a document had of a tensor or value; `data_name` is `file`, and
// is there only if that is not empty.
void WriteLeafAsSaid(const std::string& json, std::string_view file,
                     JsonWriter& out);

}  // namespace msitd::write
