// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// What both sides of the wire rely on about mappings: attachments that list
// pairs of tensors (msitd/v1/mapping.proto). What goes beyond a bound is
// refused.
namespace msitd {

// The media type of attachments that are mappings.
inline constexpr std::string_view kMappingMediaType =
    "application/vnd.msitd.mapping+jsonl";

// Bounds the memory of a mapping that is used: some 500 bytes for each pair
// with names of usual length.
inline constexpr size_t kMappingPairsMax = size_t{1} << 17;

// Two ops of which JSON escapes every byte fit into a line.
inline constexpr size_t kMappingLineBytesMax = size_t{16} << 10;
inline constexpr size_t kMappingReasonBytesMax = 256;

}  // namespace msitd
