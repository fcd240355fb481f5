// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "storage/index/chunk_index.h"

namespace msitd::storage {

struct AttachmentCheckReport {
  uint64_t attachment_count = 0;
  uint64_t attachment_bytes = 0;
};

// Reads the bytes of every attachment of every run and checks their number and
// their hash. Calls `report` with a text for each one that is not as it was
// written. A live view needs no second look: its index is that of one moment.
AttachmentCheckReport CheckAttachments(
    ChunkIndex& index, const std::function<void(std::string)>& report);

}  // namespace msitd::storage
