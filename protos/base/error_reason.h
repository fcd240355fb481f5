// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd {

// Why a request was refused or failed. The values are those of
// msitd.v1.ErrorReason, which documents them. They are repeated here because
// storage and libmsit do not depend on messages; a test compares the two lists.
enum class ErrorReason : uint8_t {
  kUnspecified = 0,

  kChunkMalformed = 1,
  kChunkVersionUnsupported = 2,
  kChunkOutOfOrder = 3,
  kChunkMisdirected = 4,
  kNameTooLong = 5,
  kNameInvalid = 6,
  kRankOutOfRange = 7,
  kTokenOutOfRange = 8,
  kCallOutOfRange = 9,
  kUnknownIo = 10,
  kUnknownDType = 11,
  kShapeMismatch = 12,
  kPartMisplaced = 13,
  kRingInvalid = 14,

  kRunNotFound = 20,
  kRunExists = 21,
  kRunSealed = 22,
  kRankBusy = 23,
  kStreamsExhausted = 24,
  kRunsExhausted = 25,
  kAttachmentNotFound = 26,
  kAttachmentExists = 27,
  kAttachmentsExhausted = 28,
  kRunRestoring = 29,

  kTensorNotFound = 30,
  kTensorExpired = 31,
  kOffsetOutOfRange = 32,
  kFrameCorrupt = 33,

  kComparisonNotFound = 40,
  kComparisonsExhausted = 41,
  kPredicateInvalid = 42,

  kPageTokenInvalid = 50,
  kFieldInvalid = 51,
  kRequestsExhausted = 52,
  kRequestTooLarge = 53,
  kQueryTooLong = 54,

  kNotServing = 60,
  kDiskFull = 61,
  kStorageFailed = 62,
  kPeerRefused = 63,
  kRoleRefused = 64,
  kNotOwner = 65,

  kSourceFailed = 70,

  kSegmentMissing = 180,

  kRunReplaced = 120,
};

// Returns the name, such as "RUN_NOT_FOUND". Names are sent over the wire,
// numbers are not. Empty for kUnspecified and for an invalid number.
std::string_view ErrorReasonName(ErrorReason reason);

}  // namespace msitd
