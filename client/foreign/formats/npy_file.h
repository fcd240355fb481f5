// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of a .npy file.
bool IsNpy(std::string_view first_bytes);

// Reads the array of a .npy file, versions 1 to 3, as an entry without a name.
// Objects, texts, records and types that msitd does not support become an entry
// with a problem. Returns an error if the header is invalid.
absl::StatusOr<FileEntry> ReadNpyEntry(std::shared_ptr<const ByteSource> bytes,
                                       const OpenOptions& options);

}  // namespace msitd::formats
