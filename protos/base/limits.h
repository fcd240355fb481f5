// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Every bound that both sides of the wire rely on, with its unit and what
// happens beyond it. A client that stays inside them is never refused for size.
namespace msitd {

// Frames and chunk payloads begin at multiples of this, so that a slot can be
// written with O_DIRECT as it lies.
inline constexpr uint64_t kChunkAlignment = 4096;

// Records begin at multiples of this inside the payload: one cache line, and
// the alignment that the SIMD kernels like best.
inline constexpr uint64_t kRecordAlignment = 64;

// A larger tensor is cut into parts of exactly this size, except the last part.
// The cut is canonical, so the hash and the summary of a tensor do not depend
// on how it was sent. A record that is cut elsewhere is refused.
inline constexpr uint64_t kPartBytes = uint64_t{4} << 20;

// A chunk that exceeds one of these is refused with INVALID_ARGUMENT.
inline constexpr uint64_t kChunkPayloadBytesMax = kPartBytes;
inline constexpr uint64_t kChunkHeadBytesMax = uint64_t{512} << 10;
inline constexpr uint32_t kChunkRecordsMax = 1024;

// Names are UTF-8 bytes without NUL. A longer one is refused.
inline constexpr uint32_t kRunNameBytesMax = 128;
inline constexpr uint32_t kJobBytesMax = 128;
inline constexpr uint32_t kDeviceBytesMax = 32;
inline constexpr uint32_t kOpBytesMax = 1024;
inline constexpr uint32_t kIndexBytesMax = 128;

// A placement with more bytes, or on a mesh of more dimensions, is refused.
inline constexpr uint32_t kPlacementBytesMax = 256;
inline constexpr uint32_t kMeshDimsMax = 8;

// The text of a value, and the Python stack of a record. A longer one is
// refused; producers shorten it.
inline constexpr uint32_t kValueBytesMax = 1024;
inline constexpr uint32_t kStackBytesMax = 8192;

// Tensors with more dimensions, or more bytes, are refused.
inline constexpr uint32_t kDimsMax = 32;
inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 40;

// Largest rank, token and call, inclusive. None of them may be negative.
inline constexpr int32_t kRankMax = (1 << 20) - 1;
inline constexpr int64_t kTokenMax = (int64_t{1} << 40) - 1;
inline constexpr int32_t kCallMax = (1 << 30) - 1;

}  // namespace msitd
