// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// All limits that both sides of the protocol rely on, with their units and the
// effect of exceeding them. A client within these limits is never refused
// because of size.
namespace msitd {

// Alignment of frames and chunk payloads, so that a slot can be written with
// O_DIRECT without a copy.
inline constexpr uint64_t kChunkAlignment = 4096;

// Alignment of records in the payload: one cache line, which is also the
// preferred alignment of the SIMD kernels.
inline constexpr uint64_t kRecordAlignment = 64;

// Size of the parts that a larger tensor is cut into; the last part may be
// smaller. The cut is canonical, so that the hash and the summary of a tensor
// do not depend on how it was sent. A record that is cut elsewhere is refused.
inline constexpr uint64_t kPartBytes = uint64_t{4} << 20;

// A chunk that exceeds one of these is refused with INVALID_ARGUMENT.
inline constexpr uint64_t kChunkPayloadBytesMax = kPartBytes;
inline constexpr uint64_t kChunkHeadBytesMax = uint64_t{512} << 10;
inline constexpr uint32_t kChunkRecordsMax = 1024;

// Maximum lengths of names in UTF-8 bytes without NUL. Longer names are
// refused.
inline constexpr uint32_t kRunNameBytesMax = 128;
inline constexpr uint32_t kJobBytesMax = 128;
inline constexpr uint32_t kDeviceBytesMax = 32;
inline constexpr uint32_t kOpBytesMax = 1024;
inline constexpr uint32_t kIndexBytesMax = 128;

// Maximum size of a placement in bytes and of its mesh in dimensions. Larger
// ones are refused.
inline constexpr uint32_t kPlacementBytesMax = 256;
inline constexpr uint32_t kMeshDimsMax = 8;

// Maximum size of the text of a value, and of the Python stack of a record.
// Longer texts are refused; producers shorten them.
inline constexpr uint32_t kValueBytesMax = 1024;
inline constexpr uint32_t kStackBytesMax = 8192;

// Maximum dimensions and bytes of a tensor. Larger tensors are refused.
inline constexpr uint32_t kDimsMax = 32;
inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 40;

// Largest rank, token and call, inclusive. The smallest is 0.
inline constexpr int32_t kRankMax = (1 << 20) - 1;
inline constexpr int64_t kTokenMax = (int64_t{1} << 40) - 1;
inline constexpr int32_t kCallMax = (1 << 30) - 1;

}  // namespace msitd
