// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of the table that CANN writes instead of a
// dump when it is configured to write statistics.
bool IsGeStats(std::string_view first_bytes);

// Opens such a table. Each row becomes a tensor without bytes, whose attributes
// are its statistics. CANN writes no statistics of a tensor that the task did
// not have, or whose type it does not support. Returns RESOURCE_EXHAUSTED
// beyond kTensorsMax rows.
OpenedFile OpenGeStats(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
