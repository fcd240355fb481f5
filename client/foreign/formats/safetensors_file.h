// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of a safetensors file of this size.
bool IsSafetensors(std::string_view first_bytes, uint64_t size);

// Reads the entries of a safetensors file, and its attributes.
absl::StatusOr<std::vector<FileEntry>> ReadSafetensors(
    std::shared_ptr<const ByteSource> bytes, Attributes& attributes);

// Opens a safetensors file. Its attributes are the entries of `__metadata__`.
OpenedFile OpenSafetensors(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
