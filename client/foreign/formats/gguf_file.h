// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of a GGUF file.
bool IsGguf(std::string_view first_bytes);

// Opens a GGUF file of version 2 or 3, little-endian. Quantized tensors are
// delivered as float32 (gguf_blocks.h). Tensors of a quantized type without a
// conversion, or of an unknown type, have a problem that names it.
OpenedFile OpenGguf(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
