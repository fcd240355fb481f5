// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "protos/chunk/chunk_draft.h"

namespace msitd::chunk {

// Contents copied from a draft. Laid out as in a head, but not validated.
struct DraftContents {
  ChunkHeader header;
  std::vector<RecordDescriptor> records;
  std::string text;  // Text and dims; the name of the run is at the end.
};

// Copies the complete records of the draft in `piece`, which is kPieceBytes
// long. Reads each number only once. Internal to Chunk.
//
// Errors: INVALID_ARGUMENT (CHUNK_MALFORMED) if the draft exceeds the maximum
// size.
absl::Status ReadDraft(std::span<const std::byte> piece, std::string_view run,
                       DraftContents& contents);

}  // namespace msitd::chunk
