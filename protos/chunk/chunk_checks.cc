// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_checks.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/placement.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "protos/base/tensor_statistics.h"
#include "protos/base/utf8.h"

namespace msitd::chunk {
namespace {

template <typename... Args>
absl::Status Invalid(ErrorReason reason, fmt::format_string<Args...> format,
                     Args&&... args) {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument, format,
                               std::forward<Args>(args)...),
                    reason);
}

// Checks one head; text and dims may begin at `table_end_`.
class HeadCheck {
 public:
  explicit HeadCheck(std::span<const std::byte> head)
      : head_(head),
        header_(*reinterpret_cast<const ChunkHeader*>(head.data())),
        table_end_(sizeof(ChunkHeader) +
                   uint64_t{header_.record_count} * sizeof(RecordDescriptor)) {}

  absl::Status Run() const;

 private:
  // Requires that the text passed CheckName.
  std::string_view Text(TextRef ref) const {
    return {reinterpret_cast<const char*>(head_.data()) + ref.offset,
            ref.length};
  }
  absl::Status CheckName(std::string_view what, TextRef ref, uint32_t max,
                         bool may_be_empty) const;
  absl::Status CheckNumbers(const RecordDescriptor& record) const;
  absl::Status CheckFlags(const RecordDescriptor& record) const;
  absl::Status CheckShape(const RecordDescriptor& record) const;
  absl::Status CheckDigest(const RecordDescriptor& record) const;
  absl::Status CheckPart(const RecordDescriptor& record, bool is_alias) const;
  // Reads the extra of a record whose dims passed CheckShape; all zero if it
  // has none.
  absl::Status ReadExtra(const RecordDescriptor& record,
                         RecordExtra& extra) const;
  absl::Status CheckText(std::string_view what, TextRef ref, bool is_there,
                         uint32_t max) const;
  absl::Status CheckAlias(const RecordDescriptor& record,
                          const RecordExtra& extra) const;
  absl::Status CheckKind(const RecordDescriptor& record,
                         const RecordExtra& extra) const;
  absl::Status CheckPlacement(const RecordDescriptor& record) const;
  absl::Status CheckRecord(const RecordDescriptor& record) const;

  std::span<const std::byte> head_;
  const ChunkHeader& header_;
  uint64_t table_end_;
};

absl::Status HeadCheck::CheckName(std::string_view what, TextRef ref,
                                  uint32_t max, bool may_be_empty) const {
  if (ref.length > max) {
    return Invalid(ErrorReason::kNameTooLong,
                   "{} is {} bytes long, at most {} may be", what, ref.length,
                   max);
  }
  if (ref.offset < table_end_ ||
      uint64_t{ref.offset} + ref.length > header_.head_bytes) {
    return Malformed("{} lies outside the head", what);
  }
  const std::string_view text = Text(ref);
  if (text.empty() && !may_be_empty) {
    return Invalid(ErrorReason::kNameInvalid, "{} is empty", what);
  }
  if (text.find('\0') != std::string_view::npos || !IsValidUtf8(text)) {
    return Invalid(ErrorReason::kNameInvalid,
                   "{} is not UTF-8 text without NUL", what);
  }
  return absl::OkStatus();
}

absl::Status HeadCheck::CheckNumbers(const RecordDescriptor& record) const {
  if (record.token < 0 || record.token > kTokenMax) {
    return Invalid(ErrorReason::kTokenOutOfRange, "token {} is not in 0..{}",
                   record.token, kTokenMax);
  }
  if (record.call < 0 || record.call > kCallMax) {
    return Invalid(ErrorReason::kCallOutOfRange, "call {} is not in 0..{}",
                   record.call, kCallMax);
  }
  if (!IsValid(static_cast<Io>(record.io))) {
    return Invalid(ErrorReason::kUnknownIo, "io {} is unknown", record.io);
  }
  if (!IsValid(static_cast<DType>(record.dtype))) {
    return Invalid(ErrorReason::kUnknownDType, "dtype {} is unknown",
                   record.dtype);
  }
  return CheckFlags(record);
}

absl::Status HeadCheck::CheckFlags(const RecordDescriptor& record) const {
  if (VersionFor(record.flags) > header_.version ||
      (record.flags & kRequiresGradMask) == kRequiresGradMask ||
      !IsValid(KindOf(record)) || record.reserved_1 != 0) {
    return Malformed("record flags {:#x} {:#x} are unknown", record.flags,
                     record.reserved_1);
  }
  return absl::OkStatus();
}

absl::Status HeadCheck::CheckText(std::string_view what, TextRef ref,
                                  bool is_there, uint32_t max) const {
  if (is_there) return CheckName(what, ref, max, true);
  if (ref.offset == 0 && ref.length == 0) return absl::OkStatus();
  return Malformed("{} is absent, but has {} bytes at {}", what, ref.length,
                   ref.offset);
}

absl::Status HeadCheck::CheckAlias(const RecordDescriptor& record,
                                   const RecordExtra& extra) const {
  if (!extra.is_alias()) {
    MSITD_RETURN_IF_ERROR(
        CheckText("the original's op", extra.alias_op, false, 0));
    MSITD_RETURN_IF_ERROR(
        CheckText("the original's index", extra.alias_index, false, 0));
    if (extra.alias_call == 0 && extra.alias_io == 0) return absl::OkStatus();
    return Malformed("a record that is no alias names the call {} and io {}",
                     extra.alias_call, extra.alias_io);
  }
  MSITD_RETURN_IF_ERROR(
      CheckName("the original's op", extra.alias_op, kOpBytesMax, false));
  MSITD_RETURN_IF_ERROR(CheckName("the original's index", extra.alias_index,
                                  kIndexBytesMax, true));
  if (extra.alias_call < 0 || extra.alias_call > kCallMax) {
    return Invalid(ErrorReason::kCallOutOfRange,
                   "the original's call {} is not in 0..{}", extra.alias_call,
                   kCallMax);
  }
  if (!IsValid(static_cast<Io>(extra.alias_io))) {
    return Invalid(ErrorReason::kUnknownIo, "the original's io {} is unknown",
                   extra.alias_io);
  }
  if (KindOf(record) != RecordKind::kTensor) {
    return Malformed("an alias of kind {} is no tensor",
                     RecordKindName(KindOf(record)));
  }
  if (extra.alias_call == record.call && extra.alias_io == record.io &&
      Text(extra.alias_op) == Text(record.op) &&
      Text(extra.alias_index) == Text(record.index)) {
    return Malformed("an alias names itself");
  }
  return absl::OkStatus();
}

absl::Status HeadCheck::ReadExtra(const RecordDescriptor& record,
                                  RecordExtra& extra) const {
  if ((record.flags & kExtraFlag) == 0) return absl::OkStatus();
  const uint64_t begin = ExtraOffset(record);
  if (begin + sizeof(extra) > header_.head_bytes) {
    return Malformed("the extra lies outside the head");
  }
  std::memcpy(&extra, head_.data() + begin, sizeof(extra));
  if ((extra.flags & ~(kAliasFlag | kValueFlag)) != 0 || extra.reserved != 0) {
    return Malformed("extra flags {:#x} {:#x} are unknown", extra.flags,
                     extra.reserved);
  }
  MSITD_RETURN_IF_ERROR(
      CheckText("the value", extra.value, extra.has_value(), kValueBytesMax));
  MSITD_RETURN_IF_ERROR(CheckText("the stack", extra.stack,
                                  extra.stack.length > 0, kStackBytesMax));
  return CheckAlias(record, extra);
}

absl::Status HeadCheck::CheckKind(const RecordDescriptor& record,
                                  const RecordExtra& extra) const {
  const RecordKind kind = KindOf(record);
  const auto dtype = static_cast<DType>(record.dtype);
  bool fits = true;
  if (kind == RecordKind::kNumber) {
    fits = record.dim_count == 0 &&
           (dtype == DType::kBool || dtype == DType::kInt64 ||
            dtype == DType::kFloat64 || dtype == DType::kComplex128);
  } else if (IsTextOnly(kind) && kind != RecordKind::kStatistics) {
    fits = record.dim_count == 1 && dtype == DType::kUint8 &&
           record.tensor_bytes == 0;
  } else if (kind == RecordKind::kDocument) {
    fits = record.dim_count == 1 && dtype == DType::kUint8 &&
           static_cast<Io>(record.io) == Io::kState && record.index.length == 0;
  }
  if (!fits) {
    return Invalid(
        ErrorReason::kShapeMismatch,
        "no {} has {} dimensions of {}, {} bytes, io {} and an index "
        "of {} bytes",
        RecordKindName(kind), record.dim_count, DTypeName(dtype),
        record.tensor_bytes, IoName(static_cast<Io>(record.io)),
        record.index.length);
  }
  if (extra.has_value() != HasValueText(kind)) {
    return Malformed("a record of kind {} has {} value", RecordKindName(kind),
                     extra.has_value() ? "a" : "no");
  }
  if (kind == RecordKind::kStatistics &&
      !ParseTensorStatistics(Text(extra.value)).has_value()) {
    return Malformed("the statistics are no JSON object of names and scalars");
  }
  return absl::OkStatus();
}

absl::Status HeadCheck::CheckShape(const RecordDescriptor& record) const {
  if (record.dim_count > kDimsMax) {
    return Invalid(ErrorReason::kShapeMismatch,
                   "{} dimensions, at most {} may be", record.dim_count,
                   kDimsMax);
  }
  if (record.dims_offset % sizeof(int64_t) != 0 ||
      record.dims_offset < table_end_ ||
      record.dims_offset + record.dim_count * sizeof(int64_t) >
          header_.head_bytes) {
    return Malformed("the dims lie outside the head");
  }
  const std::span<const int64_t> dims(
      reinterpret_cast<const int64_t*>(head_.data() + record.dims_offset),
      record.dim_count);
  uint64_t bytes = ElementBytes(static_cast<DType>(record.dtype));
  bool overflow = false;
  bool is_empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return Invalid(ErrorReason::kShapeMismatch, "a dimension is {}", dim);
    }
    is_empty |= dim == 0;
    overflow |= __builtin_mul_overflow(
        bytes, static_cast<uint64_t>(std::max<int64_t>(dim, 1)), &bytes);
    overflow |= bytes > kTensorBytesMax;
  }
  // Statistics do not include the bytes that they describe.
  const bool has_bytes = KindOf(record) != RecordKind::kStatistics;
  if (is_empty || (!has_bytes && !overflow)) bytes = 0;
  if ((overflow && !is_empty) || record.tensor_bytes != bytes) {
    return Invalid(
        ErrorReason::kShapeMismatch, "shape [{}] of {} does not take {} bytes",
        fmt::join(dims, ", "), DTypeName(static_cast<DType>(record.dtype)),
        record.tensor_bytes);
  }
  return absl::OkStatus();
}

// A record may have a digest only if its payload is not kept by the frame, and
// the stamp of a false digest only if its bytes were sent.
absl::Status HeadCheck::CheckDigest(const RecordDescriptor& record) const {
  const bool is_false = (record.flags & kFalseDigestFlag) != 0;
  if (HasDigest(record) ? (header_.flags & kSummaryOnlyFlag) != 0 &&
                              KindOf(record) == RecordKind::kTensor &&
                              !(is_false && IsClaimed(record))
                        : !is_false) {
    return absl::OkStatus();
  }
  return Malformed("record flags {:#x} do not go with each other or the chunk",
                   record.flags);
}

absl::Status HeadCheck::CheckPart(const RecordDescriptor& record,
                                  bool is_alias) const {
  if (record.part_offset % kPartBytes != 0 ||
      (record.part_offset != 0 && record.part_offset >= record.tensor_bytes)) {
    return Invalid(ErrorReason::kPartMisplaced,
                   "no part of a tensor of {} bytes begins at byte {}",
                   record.tensor_bytes, record.part_offset);
  }
  if (HasDigest(record) && !is_alias) {
    if (record.payload_bytes == sizeof(Digest) ||
        record.payload_bytes == kDigestSpan + PartBytes(record)) {
      return absl::OkStatus();
    }
    return Invalid(ErrorReason::kPartMisplaced,
                   "the part at byte {} has {} bytes: neither a digest alone "
                   "nor one and {} bytes",
                   record.part_offset, record.payload_bytes, PartBytes(record));
  }
  const uint64_t part_bytes = is_alias ? 0 : PartBytes(record);
  if (record.payload_bytes != part_bytes) {
    return Invalid(ErrorReason::kPartMisplaced,
                   "the part at byte {} has {} bytes instead of {}",
                   record.part_offset, record.payload_bytes, part_bytes);
  }
  return absl::OkStatus();
}

absl::Status HeadCheck::CheckPlacement(const RecordDescriptor& record) const {
  const TextRef ref = record.placement;
  if (ref.offset == 0 && ref.length == 0) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(
      CheckName("the placement", ref, kPlacementBytesMax, false));
  const std::string_view text = Text(ref);
  if (ParsePlacement(text).has_value()) return absl::OkStatus();
  return Invalid(ErrorReason::kNameInvalid,
                 "the placement \"{}\" is not like 0+2x4/4x1:R,S(0), or its "
                 "ranks are no mesh",
                 text);
}

absl::Status HeadCheck::CheckRecord(const RecordDescriptor& record) const {
  MSITD_RETURN_IF_ERROR(CheckName("the op", record.op, kOpBytesMax, false));
  MSITD_RETURN_IF_ERROR(
      CheckName("the index", record.index, kIndexBytesMax, true));
  MSITD_RETURN_IF_ERROR(
      CheckName("the device", record.device, kDeviceBytesMax, false));
  MSITD_RETURN_IF_ERROR(CheckNumbers(record));
  MSITD_RETURN_IF_ERROR(CheckShape(record));
  MSITD_RETURN_IF_ERROR(CheckPlacement(record));
  RecordExtra extra;
  MSITD_RETURN_IF_ERROR(ReadExtra(record, extra));
  MSITD_RETURN_IF_ERROR(CheckKind(record, extra));
  MSITD_RETURN_IF_ERROR(CheckDigest(record));
  return CheckPart(record, extra.is_alias());
}

absl::Status HeadCheck::Run() const {
  MSITD_RETURN_IF_ERROR(
      CheckName("the run name", header_.run, kRunNameBytesMax, false));
  const std::span<const RecordDescriptor> records(
      reinterpret_cast<const RecordDescriptor*>(head_.data() +
                                                sizeof(ChunkHeader)),
      header_.record_count);
  uint64_t payload_end = 0;
  uint64_t sequence = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const RecordDescriptor& record = records[i];
    if (const absl::Status status = CheckRecord(record); !status.ok()) {
      return Annotate(status, fmt::format("record {}", i));
    }
    if (record.payload_offset % kRecordAlignment != 0 ||
        record.payload_offset < payload_end ||
        record.payload_offset > header_.payload_bytes ||
        record.payload_bytes > header_.payload_bytes - record.payload_offset) {
      return Malformed("record {}: its bytes are misplaced in the payload", i);
    }
    if (record.sequence < sequence) {
      return Malformed("record {}: sequence {} comes after {}", i,
                       record.sequence, sequence);
    }
    payload_end = record.payload_offset + record.payload_bytes;
    sequence = record.sequence;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHeader(const ChunkHeader& header) {
  if (header.magic != kMagic) {
    return Malformed("magic {:#x} is not that of a chunk", header.magic);
  }
  if (header.version < kPlainVersion || header.version > kVersion) {
    return Invalid(ErrorReason::kChunkVersionUnsupported,
                   "chunk version {} is not in {}..{}", header.version,
                   kPlainVersion, kVersion);
  }
  if (header.rank < 0 || header.rank > kRankMax) {
    return Invalid(ErrorReason::kRankOutOfRange, "rank {} is not in 0..{}",
                   header.rank, kRankMax);
  }
  if (header.record_count == 0 || header.record_count > kChunkRecordsMax) {
    return Malformed("{} records are not in 1..{}", header.record_count,
                     kChunkRecordsMax);
  }
  if (header.payload_bytes > kChunkPayloadBytesMax) {
    return Malformed("a payload of {} bytes is over {}", header.payload_bytes,
                     kChunkPayloadBytesMax);
  }
  const uint64_t table_bytes =
      sizeof(ChunkHeader) +
      uint64_t{header.record_count} * sizeof(RecordDescriptor);
  if (header.head_bytes < table_bytes ||
      header.head_bytes > kChunkHeadBytesMax) {
    return Malformed("a head of {} bytes is not in {}..{}", header.head_bytes,
                     table_bytes, kChunkHeadBytesMax);
  }
  constexpr uint32_t kKeptFlags = kSummaryOnlyFlag | kSampleFlag;
  constexpr uint32_t kKnownFlags =
      kKeptFlags | kSharedMemoryFlag | kOwnMemoryFlag;
  if ((header.flags & ~kKnownFlags) != 0 || header.reserved_1 != 0) {
    return Malformed("chunk flags {:#x} {:#x} are unknown", header.flags,
                     header.reserved_1);
  }
  if ((header.flags & kKeptFlags) == kKeptFlags) {
    return Malformed("chunk flags {:#x} ask for samples and for none",
                     header.flags);
  }
  return absl::OkStatus();
}

absl::Status CheckUnstamped(const ChunkHeader& header) {
  if ((header.flags & (kSharedMemoryFlag | kOwnMemoryFlag)) == 0) {
    return absl::OkStatus();
  }
  return Malformed("chunk flags {:#x} are for the daemon to set", header.flags);
}

absl::Status CheckHead(std::span<const std::byte> head) {
  return HeadCheck(head).Run();
}

}  // namespace msitd::chunk
