// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"

// Finds the files that a dump.json or debug.json of msprobe names.
namespace msitd::write {

// The file of each tensor, empty if it has none. The key is the name of the
// tensor in msitd, without a suffix.
using MsprobeFiles = std::map<std::string, std::string>;

// Adds the tensors of a document. Returns INVALID_ARGUMENT if it cannot be
// parsed, or names a file without a tensor of its own, and RESOURCE_EXHAUSTED
// if it has more than `tensors_max` tensors. `files` has a part of them in
// these cases.
absl::Status AddMsprobeFiles(std::istream& document, size_t tensors_max,
                             MsprobeFiles& files);

// Returns true if a document has NaN or an infinity as Python writes them,
// which valid JSON does not have.
bool HasPythonNumbers(std::istream& document);

// Returns true if `files` has every tensor of `rows` with the file of its row,
// and no other file.
bool FilesFit(MsprobeFiles files, const std::vector<MsprobeRow>& rows);

}  // namespace msitd::write
