// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true if these can be the first bytes of a GE dump and of no other
// kind of file. `size` is that of the file, which may be truncated.
bool IsGeDump(std::string_view first_bytes, uint64_t size);

// Opens a dump of one task of CANN: inputs, outputs, buffers and workspaces.
// The attributes of the file are `op_name`, `dump_time`, `version` and the
// attributes of the op.
OpenedFile OpenGeDump(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
