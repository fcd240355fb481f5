// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// Limits of mappings, which are attachments that list pairs of tensors
// (msitd/v1/mapping.proto). Both sides of the protocol rely on them. Data that
// exceeds a limit is refused.
namespace msitd {

// The media type of attachments that are mappings.
inline constexpr std::string_view kMappingMediaType =
    "application/vnd.msitd.mapping+jsonl";

// Limits the memory of a mapping in use, which is about 500 bytes for each pair
// with names of usual length.
inline constexpr size_t kMappingPairsMax = size_t{1} << 17;

// A line has room for two ops of which JSON escapes every byte.
inline constexpr size_t kMappingLineBytesMax = size_t{16} << 10;
inline constexpr size_t kMappingReasonBytesMax = 256;

}  // namespace msitd
