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
// hash. Calls `report` with a text for each attachment that differs from the
// written data. With a live view, findings need no second check, because its
// index is a snapshot of one moment.
AttachmentCheckReport CheckAttachments(
    ChunkIndex& index, const std::function<void(std::string)>& report);

}  // namespace msitd::storage
