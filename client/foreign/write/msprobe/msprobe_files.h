// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"

// Which files a dump.json or debug.json of msprobe names.
namespace msitd::write {

// The file of each tensor, empty if it has none. The key is the name that we
// give the tensor, without a suffix.
using MsprobeFiles = std::map<std::string, std::string>;

// Adds the tensors of a document. INVALID_ARGUMENT if it cannot be read, or
// names a file without a tensor of its own, RESOURCE_EXHAUSTED if it has more
// than `tensors_max`; then `files` has a part of them.
absl::Status AddMsprobeFiles(std::istream& document, size_t tensors_max,
                             MsprobeFiles& files);

// True if a document has NaN or an infinity as Python writes them, which JSON
// does not have.
bool HasPythonNumbers(std::istream& document);

// True if `files` has every tensor of `rows` with the file of its row, and no
// other file.
bool FilesFit(MsprobeFiles files, const std::vector<MsprobeRow>& rows);

}  // namespace msitd::write
