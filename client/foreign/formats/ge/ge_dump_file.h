// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// True if these can be the first bytes of a GE dump, as opposed to all other
// kinds. `size` is that of the file, which may be cut off.
bool IsGeDump(std::string_view first_bytes, uint64_t size);

// Opens what CANN dumps of one task: inputs, outputs, buffers and workspaces.
// The attributes of the file are `op_name`, `dump_time`, `version` and those of
// the op.
OpenedFile OpenGeDump(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
