// SPDX-License-Identifier: Apache-2.0
#include "protos/base/error_reason.h"

#include <algorithm>
#include <iterator>

namespace msitd {
namespace {

struct Row {
  ErrorReason reason;
  std::string_view name;
};

constexpr Row kRows[] = {
    {ErrorReason::kChunkMalformed, "CHUNK_MALFORMED"},
    {ErrorReason::kChunkVersionUnsupported, "CHUNK_VERSION_UNSUPPORTED"},
    {ErrorReason::kChunkOutOfOrder, "CHUNK_OUT_OF_ORDER"},
    {ErrorReason::kChunkMisdirected, "CHUNK_MISDIRECTED"},
    {ErrorReason::kNameTooLong, "NAME_TOO_LONG"},
    {ErrorReason::kNameInvalid, "NAME_INVALID"},
    {ErrorReason::kRankOutOfRange, "RANK_OUT_OF_RANGE"},
    {ErrorReason::kTokenOutOfRange, "TOKEN_OUT_OF_RANGE"},
    {ErrorReason::kCallOutOfRange, "CALL_OUT_OF_RANGE"},
    {ErrorReason::kUnknownIo, "UNKNOWN_IO"},
    {ErrorReason::kUnknownDType, "UNKNOWN_DTYPE"},
    {ErrorReason::kShapeMismatch, "SHAPE_MISMATCH"},
    {ErrorReason::kPartMisplaced, "PART_MISPLACED"},
    {ErrorReason::kRingInvalid, "RING_INVALID"},
    {ErrorReason::kRunNotFound, "RUN_NOT_FOUND"},
    {ErrorReason::kRunExists, "RUN_EXISTS"},
    {ErrorReason::kRunSealed, "RUN_SEALED"},
    {ErrorReason::kRankBusy, "RANK_BUSY"},
    {ErrorReason::kStreamsExhausted, "STREAMS_EXHAUSTED"},
    {ErrorReason::kRunsExhausted, "RUNS_EXHAUSTED"},
    {ErrorReason::kAttachmentNotFound, "ATTACHMENT_NOT_FOUND"},
    {ErrorReason::kAttachmentExists, "ATTACHMENT_EXISTS"},
    {ErrorReason::kAttachmentsExhausted, "ATTACHMENTS_EXHAUSTED"},
    {ErrorReason::kRunRestoring, "RUN_RESTORING"},
    {ErrorReason::kTensorNotFound, "TENSOR_NOT_FOUND"},
    {ErrorReason::kTensorExpired, "TENSOR_EXPIRED"},
    {ErrorReason::kOffsetOutOfRange, "OFFSET_OUT_OF_RANGE"},
    {ErrorReason::kFrameCorrupt, "FRAME_CORRUPT"},
    {ErrorReason::kComparisonNotFound, "COMPARISON_NOT_FOUND"},
    {ErrorReason::kComparisonsExhausted, "COMPARISONS_EXHAUSTED"},
    {ErrorReason::kPredicateInvalid, "PREDICATE_INVALID"},
    {ErrorReason::kPageTokenInvalid, "PAGE_TOKEN_INVALID"},
    {ErrorReason::kFieldInvalid, "FIELD_INVALID"},
    {ErrorReason::kRequestsExhausted, "REQUESTS_EXHAUSTED"},
    {ErrorReason::kRequestTooLarge, "REQUEST_TOO_LARGE"},
    {ErrorReason::kQueryTooLong, "QUERY_TOO_LONG"},
    {ErrorReason::kNotServing, "NOT_SERVING"},
    {ErrorReason::kDiskFull, "DISK_FULL"},
    {ErrorReason::kStorageFailed, "STORAGE_FAILED"},
    {ErrorReason::kPeerRefused, "PEER_REFUSED"},
    {ErrorReason::kRoleRefused, "ROLE_REFUSED"},
    {ErrorReason::kNotOwner, "NOT_OWNER"},
    {ErrorReason::kSourceFailed, "SOURCE_FAILED"},
    {ErrorReason::kSegmentMissing, "SEGMENT_MISSING"},
    {ErrorReason::kRunReplaced, "RUN_REPLACED"},
};

}  // namespace

std::string_view ErrorReasonName(ErrorReason reason) {
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows),
                   [reason](const Row& one) { return one.reason == reason; });
  return row == std::end(kRows) ? std::string_view() : row->name;
}

}  // namespace msitd
