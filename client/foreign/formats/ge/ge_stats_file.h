// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// True for the first bytes of the table that CANN writes instead of a dump when
// it is asked for statistics.
bool IsGeStats(std::string_view first_bytes);

// Opens such a table: one tensor for each row, without bytes, whose attributes
// are its statistics. CANN writes none of a tensor that the task did not have,
// or whose type it does not know. RESOURCE_EXHAUSTED beyond kTensorsMax rows.
OpenedFile OpenGeStats(std::shared_ptr<const ByteSource> bytes);

}  // namespace msitd::formats
