// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/writer/json_writer.h"

// Preserves contents of a run's documents when its records are written again:
// contents that no record has, such as the mesh of a DTensor, the source line
// of a frame or the module that called a function.
namespace msitd::write {

// The longest document that is read. Contents of a longer one are not
// preserved.
inline constexpr int64_t kMsprobeSaidBytesMax = int64_t{64} << 20;

// Fills `said` of the rows and of the dump from the document `name`: dump.json,
// debug.json, stack.json or construct.json. Only contents for entries of the
// rows are kept and, for construct.json, the modules that contain them.
// Contents before an error are kept. Returns INVALID_ARGUMENT if the document
// cannot be parsed.
absl::Status TakeMsprobeDocument(std::string_view name, std::string text,
                                 MsprobeDump& dump);

// Writes JSON from a document, without the names of files.
void WriteAsSaid(const std::string& json, JsonWriter& out);

// Writes the JSON of a tensor or value from a document. `data_name` is `file`,
// and is omitted if that is empty.
void WriteLeafAsSaid(const std::string& json, std::string_view file,
                     JsonWriter& out);

}  // namespace msitd::write
