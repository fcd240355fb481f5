// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "protos/chunk/chunk_checks.h"
#include "protos/chunk/draft_reader.h"
#include "protos/status/status.h"

namespace msitd::chunk {
namespace {

uint64_t HeadChecksum(std::span<const std::byte> head) {
  ChunkHeader header;
  std::memcpy(&header, head.data(), sizeof(header));
  const uint64_t head_bytes = header.head_bytes;
  header.head_checksum = 0;
  // Hashes the header separately, because other threads may read the head and
  // it must not be changed even temporarily.
  const uint64_t seed = XXH3_64bits(&header, sizeof(header));
  return XXH3_64bits_withSeed(head.data() + sizeof(header),
                              head_bytes - sizeof(header), seed);
}

void ClearStamps(ChunkHeader& header, std::span<RecordDescriptor> records) {
  constexpr size_t kStampBegin = offsetof(ChunkHeader, run_id);
  std::memset(reinterpret_cast<std::byte*>(&header) + kStampBegin, 0,
              sizeof(ChunkHeader) - kStampBegin);
  for (RecordDescriptor& record : records) {
    record.summary = Summary{};
    record.hash = ContentHash{};
    record.sample_hash = 0;
    record.bytes_segment_id = 0;
    record.bytes_offset = 0;
    record.flags &= ~kFalseDigestFlag;
  }
}

}  // namespace

absl::StatusOr<Chunk> Chunk::FromProducer(std::span<const std::byte> bytes) {
  ChunkHeader header;
  if (bytes.size() < sizeof(header)) {
    return Malformed("{} bytes are no chunk: the header alone takes {}",
                     bytes.size(), sizeof(header));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  MSITD_RETURN_IF_ERROR(CheckHeader(header));
  MSITD_RETURN_IF_ERROR(CheckUnstamped(header));
  const uint64_t head_span = AlignUp(header.head_bytes, kChunkAlignment);
  const uint64_t span =
      head_span + AlignUp(header.payload_bytes, kChunkAlignment);
  if (bytes.size() != span) {
    return Malformed("the chunk is {} bytes long, its header says {}",
                     bytes.size(), span);
  }
  AlignedBuffer head(head_span);
  // The header is the private copy that was checked. After these copies, only
  // the payload is read from the producer's memory.
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), bytes.data() + sizeof(header),
              header.head_bytes - sizeof(header));
  std::memset(head.data() + header.head_bytes, 0,
              head_span - header.head_bytes);
  return Checked(std::move(head), bytes.subspan(head_span));
}

absl::StatusOr<Chunk> Chunk::Checked(AlignedBuffer head,
                                     std::span<const std::byte> payload) {
  MSITD_RETURN_IF_ERROR(CheckHead(head.span()));
  Chunk chunk(std::move(head), payload);
  ClearStamps(chunk.header(), chunk.records());
  MSITD_RETURN_IF_ERROR(chunk.TakeDigests());
  return chunk;
}

absl::Status Chunk::TakeDigests() {
  for (RecordDescriptor& record : records()) {
    if (!HasDigest(record) || record.payload_bytes == 0) continue;
    Digest digest;
    std::memcpy(&digest, payload_.data() + record.payload_offset,
                sizeof(digest));
    if (!IsPossible(digest.summary, static_cast<DType>(record.dtype),
                    PartBytes(record))) {
      return Malformed("record {}: no {} of {} bytes has the summary that came",
                       &record - records().data(),
                       DTypeName(static_cast<DType>(record.dtype)),
                       PartBytes(record));
    }
    record.summary = digest.summary;
    record.hash = digest.hash;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Chunk>> Chunk::FromDraft(
    std::span<const std::byte> piece, const DraftIdentity& identity) {
  DraftContents draft;
  MSITD_RETURN_IF_ERROR(ReadDraft(piece, identity.run, draft));
  ChunkHeader& header = draft.header;
  if (header.record_count == 0) return std::nullopt;
  header.rank = identity.rank;
  header.stream_id = identity.stream_id;
  header.chunk_sequence = identity.chunk_sequence;
  MSITD_RETURN_IF_ERROR(CheckHeader(header));
  MSITD_RETURN_IF_ERROR(CheckUnstamped(header));
  const uint64_t table_bytes = draft.records.size() * sizeof(RecordDescriptor);
  AlignedBuffer head(AlignUp(header.head_bytes, kChunkAlignment));
  std::byte* out = head.data();
  std::memcpy(out, &header, sizeof(header));
  out += sizeof(header);
  std::memcpy(out, draft.records.data(), table_bytes);
  out += table_bytes;
  std::memcpy(out, draft.text.data(), draft.text.size());
  out += draft.text.size();
  std::fill(out, head.data() + head.size(), std::byte{0});
  absl::StatusOr<Chunk> chunk =
      Checked(std::move(head),
              piece.subspan(kChunkHeadBytesMax,
                            AlignUp(header.payload_bytes, kChunkAlignment)));
  if (!chunk.ok()) return chunk.status();
  return *std::move(chunk);
}

absl::StatusOr<Chunk> Chunk::FromFrame(AlignedBuffer head) {
  const auto data_loss = [](std::string_view what) {
    return WithReason(absl::DataLossError(std::string(what)),
                      ErrorReason::kFrameCorrupt);
  };
  const auto span = FrameHeadSpan(head.span());
  if (!span.ok()) return span.status();
  if (*span > head.size()) return data_loss("the head is cut short");
  ChunkHeader header;
  std::memcpy(&header, head.data(), sizeof(header));
  if (header.head_checksum != HeadChecksum(head.span())) {
    return data_loss("the head does not match its checksum");
  }
  if (const absl::Status status = CheckHead(head.span()); !status.ok()) {
    return data_loss(Message(status));
  }
  return Chunk(std::move(head), {});
}

absl::StatusOr<uint64_t> FrameHeadSpan(std::span<const std::byte> begin) {
  ChunkHeader header;
  absl::Status status;
  if (begin.size() < sizeof(header)) {
    status = Malformed("the header is cut short");
  } else {
    std::memcpy(&header, begin.data(), sizeof(header));
    status = CheckHeader(header);
  }
  if (!status.ok()) {
    return WithReason(absl::DataLossError(std::string(Message(status))),
                      ErrorReason::kFrameCorrupt);
  }
  return AlignUp(header.head_bytes, kChunkAlignment);
}

// The head is aligned to a page and both structs are trivially copyable, so
// they are used in place.
ChunkHeader& Chunk::header() {
  return *reinterpret_cast<ChunkHeader*>(head_.data());
}

const ChunkHeader& Chunk::header() const {
  return *reinterpret_cast<const ChunkHeader*>(head_.data());
}

std::span<RecordDescriptor> Chunk::records() {
  return {
      reinterpret_cast<RecordDescriptor*>(head_.data() + sizeof(ChunkHeader)),
      header().record_count};
}

std::span<const RecordDescriptor> Chunk::records() const {
  return {reinterpret_cast<const RecordDescriptor*>(head_.data() +
                                                    sizeof(ChunkHeader)),
          header().record_count};
}

std::string_view Chunk::Text(TextRef ref) const {
  return {reinterpret_cast<const char*>(head_.data()) + ref.offset, ref.length};
}

std::span<const int64_t> Chunk::Dims(const RecordDescriptor& record) const {
  return {reinterpret_cast<const int64_t*>(head_.data() + record.dims_offset),
          record.dim_count};
}

RecordExtra Chunk::ExtraOf(const RecordDescriptor& record) const {
  RecordExtra out;
  if ((record.flags & kExtraFlag) != 0) {
    std::memcpy(&out, head_.data() + ExtraOffset(record), sizeof(out));
  }
  return out;
}

uint64_t Chunk::stored_payload_bytes() const {
  if (const auto bytes = StoredPayloadBytes(header()); bytes.has_value()) {
    return *bytes;
  }
  FramePayload samples(header());
  for (const RecordDescriptor& record : records()) samples.Next(record);
  return AlignUp(samples.end(), kChunkAlignment);
}

std::span<const std::byte> Chunk::GatherSamples(AlignedBuffer& buffer) {
  const uint64_t bytes = stored_payload_bytes();
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  const std::span<std::byte> out = buffer.span().first(bytes);
  FramePayload samples(header());
  for (RecordDescriptor& record : records()) {
    const uint64_t end = samples.end();
    const FramePayload::RecordBytes place = samples.Next(record);
    std::fill_n(out.begin() + end, place.offset - end, std::byte{0});
    const std::span<std::byte> sample = out.subspan(place.offset, place.bytes);
    GatherSample(SampleOf(record), PayloadOf(record), sample);
    // The store stamps the sample hash of an alias.
    if (ExtraOf(record).is_alias()) continue;
    // Hashes the private copy, because the producer may change the payload at
    // any time.
    record.sample_hash = HashSample(sample);
  }
  std::fill(out.begin() + samples.end(), out.end(), std::byte{0});
  return out;
}

std::optional<uint64_t> StoredPayloadBytes(const ChunkHeader& header) {
  switch (KeptOf(header)) {
    case Kept::kAll:
      return AlignUp(header.payload_bytes, kChunkAlignment);
    case Kept::kNothing:
      return 0;
    case Kept::kSample:
      break;
  }
  return std::nullopt;
}

void Chunk::StampChecksum() { header().head_checksum = HeadChecksum(head()); }

ContentHash HashBytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

uint64_t HashSample(std::span<const std::byte> sample) {
  return XXH3_64bits(sample.data(), sample.size());
}

ContentHash CombinePartHashes(std::span<const ContentHash> parts) {
  if (parts.size() == 1) return parts.front();
  return HashBytes(std::as_bytes(parts));
}

}  // namespace msitd::chunk
