// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"

// The checks of Chunk::FromProducer and Chunk::FromFrame. They read a private
// copy: no function of this header may be called on memory that a producer can
// still write.
namespace msitd::chunk {

// INVALID_ARGUMENT with the reason CHUNK_MALFORMED.
template <typename... Args>
absl::Status Malformed(fmt::format_string<Args...> format, Args&&... args) {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument, format,
                               std::forward<Args>(args)...),
                    ErrorReason::kChunkMalformed);
}

// Checks the fields of the header that need no other data: magic, version and
// sizes.
absl::Status CheckHeader(const ChunkHeader& header);

// Checks that no stamped bit is set in the flags.
absl::Status CheckUnstamped(const ChunkHeader& header);

// Checks a whole head. Its header must have passed CheckHeader, and its memory
// must be at least `head_bytes` long and aligned to 8.
absl::Status CheckHead(std::span<const std::byte> head);

}  // namespace msitd::chunk
