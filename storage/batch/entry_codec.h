// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/types.h"

// Definitions shared by the writer and the reader of a batch.
namespace msitd::storage {

inline constexpr uint8_t kEntryBatchVersion = 1;

// Bits of an entry: its kind, and which fields it has.
inline constexpr uint64_t kEntryHasBytes = 1;
inline constexpr uint64_t kEntryHasSample = 2;
inline constexpr uint64_t kEntryIsClaimed = 4;
inline constexpr uint64_t kEntryPlacement = 8;
inline constexpr uint64_t kEntryGradKnown = 16;
inline constexpr uint64_t kEntryGrad = 32;
inline constexpr uint64_t kEntryValue = 64;
inline constexpr uint64_t kEntryStack = 128;
inline constexpr uint64_t kEntryAlias = 256;
// The parts differ from the tensor, and from each other, in which data they
// have.
inline constexpr uint64_t kEntryMixedParts = 512;
inline constexpr uint64_t kEntryBitsEnd = 1024;

// Bits of a part.
inline constexpr uint8_t kPartHasBytes = 1;
inline constexpr uint8_t kPartHasSample = 2;

// Returns the bits of an entry.
uint64_t EntryBits(const TensorInfo& tensor);

// Returns DATA_LOSS unless the entry could result from records that a producer
// may send. Names and parts are not checked here.
absl::Status CheckEntry(const TensorInfo& tensor);

}  // namespace msitd::storage
