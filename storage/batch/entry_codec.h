// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/types.h"

// What the writer and the reader of a batch share.
namespace msitd::storage {

inline constexpr uint8_t kEntryBatchVersion = 1;

// Bits of an entry: what it is, and which fields it has.
inline constexpr uint64_t kEntryHasBytes = 1;
inline constexpr uint64_t kEntryHasSample = 2;
inline constexpr uint64_t kEntryIsClaimed = 4;
inline constexpr uint64_t kEntryPlacement = 8;
inline constexpr uint64_t kEntryGradKnown = 16;
inline constexpr uint64_t kEntryGrad = 32;
inline constexpr uint64_t kEntryValue = 64;
inline constexpr uint64_t kEntryStack = 128;
inline constexpr uint64_t kEntryAlias = 256;
// Parts differ from the tensor, and from each other, in what they have.
inline constexpr uint64_t kEntryMixedParts = 512;
inline constexpr uint64_t kEntryBitsEnd = 1024;

// Bits of a part.
inline constexpr uint8_t kPartHasBytes = 1;
inline constexpr uint8_t kPartHasSample = 2;

// Returns the bits of an entry.
uint64_t EntryBits(const TensorInfo& tensor);

// DATA_LOSS unless the entry could have come from records that a producer may
// send. Names are checked by whoever reads them, parts are not looked at.
absl::Status CheckEntry(const TensorInfo& tensor);

}  // namespace msitd::storage
