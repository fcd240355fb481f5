// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"
#include "protos/chunk/frame_payload.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {

// A validated chunk. Its head is a private copy that passed all checks below,
// so its descriptors can be trusted. Its payload is opaque bytes that the
// producer may still change.
//
// Thread-compatible. The payload is borrowed and must outlive the chunk.
class Chunk {
 public:
  // Copies the head of `bytes`, which is a whole chunk from a producer, and
  // checks the copy:
  // - magic, version, sizes within limits.h, and `bytes` exactly as long as the
  //   head and the payload with their padding;
  // - names: not empty, no NUL, valid UTF-8, not too long;
  // - rank, token, call, io and dtype in range;
  // - dims x element size = tensor_bytes, without overflow;
  // - kind, value, stack and alias as defined in docs/format/chunk.md;
  // - a part begins at a multiple of kPartBytes and has the canonical size;
  // - records are inside the payload, aligned, in order, and do not overlap;
  // - sequences do not decrease.
  //
  // Clears everything that the producer wrote to stamped fields. The summary
  // and hash of a record with a digest are private copies of those in the
  // payload, and are checked as well.
  //
  // Errors: INVALID_ARGUMENT with a reason of error_reason.proto; the message
  // names the record and the values.
  static absl::StatusOr<Chunk> FromProducer(std::span<const std::byte> bytes);

  // Identity of the chunk of a draft, which the draft itself does not contain.
  struct DraftIdentity {
    std::string_view run;
    int32_t rank = 0;
    uint64_t stream_id = 0;
    uint64_t chunk_sequence = 0;
  };

  // Makes a chunk from the complete records of the draft in `piece`, which is
  // kPieceBytes long and whose producer has ended. The head consists of private
  // copies and passed the checks of FromProducer. Returns nothing if the draft
  // has no complete record.
  //
  // Errors: those of FromProducer.
  static absl::StatusOr<std::optional<Chunk>> FromDraft(
      std::span<const std::byte> piece, const DraftIdentity& identity);

  // Makes a chunk from `head`, the head of a frame that was read from a
  // segment. Performs the same checks and verifies the checksum. Keeps stamped
  // fields. The payload of the result is empty.
  //
  // Errors: DATA_LOSS.
  static absl::StatusOr<Chunk> FromFrame(AlignedBuffer head);

  ChunkHeader& header();
  const ChunkHeader& header() const;
  std::span<RecordDescriptor> records();
  std::span<const RecordDescriptor> records() const;

  std::string_view Text(TextRef ref) const;
  std::string_view run() const { return Text(header().run); }
  std::span<const int64_t> Dims(const RecordDescriptor& record) const;
  // False for an alias, and for a record that consists of its text only. The
  // hash of such a record is not that of its payload.
  bool HasOwnBytes(const RecordDescriptor& record) const {
    return !IsTextOnly(KindOf(record)) && !ExtraOf(record).is_alias();
  }
  // Returns the extra fields of the record; all zero if it has none.
  RecordExtra ExtraOf(const RecordDescriptor& record) const;

  // The head with its padding, as it is written to disk before the payload.
  std::span<const std::byte> head() const { return head_.span(); }

  // The payload with its padding.
  std::span<const std::byte> payload() const { return payload_; }

  // Returns the bytes of the record; empty if the producer sent only their
  // digest.
  std::span<const std::byte> PayloadOf(const RecordDescriptor& record) const {
    const uint64_t skipped =
        HasDigest(record) ? std::min(kDigestSpan, record.payload_bytes) : 0;
    return payload_.subspan(record.payload_offset + skipped,
                            record.payload_bytes - skipped);
  }

  // How much of the payload the frame stores.
  Kept kept() const { return KeptOf(header()); }
  bool keeps_payload() const { return kept() == Kept::kAll; }

  // Copies the samples of all records to `buffer`, in the layout of the frame,
  // stamps their hashes except those of aliases, and returns the samples with
  // their padding. Enlarges `buffer` if necessary. Requires that the chunk has
  // its payload and that kept() is kSample.
  std::span<const std::byte> GatherSamples(AlignedBuffer& buffer);

  // Bytes of payload that the frame stores on disk, with padding.
  uint64_t stored_payload_bytes() const;

  // Bytes of the whole frame: head and stored payload, with padding.
  uint64_t frame_bytes() const { return head_.size() + stored_payload_bytes(); }

  // Number of records that the store already had with other bytes. Set by the
  // store.
  uint32_t conflict_count() const { return conflict_count_; }
  void set_conflict_count(uint32_t count) { conflict_count_ = count; }

  // Computes and writes the checksum of the head. Must be the last stamp. Other
  // threads may read the records and the other header fields at the same time.
  void StampChecksum();

 private:
  // `payload` must be at least as long as the header of `head` states.
  static absl::StatusOr<Chunk> Checked(AlignedBuffer head,
                                       std::span<const std::byte> payload);
  // Copies the digests out of the payload to the descriptors.
  absl::Status TakeDigests();

  Chunk(AlignedBuffer head, std::span<const std::byte> payload)
      : head_(std::move(head)), payload_(payload) {}

  AlignedBuffer head_;
  std::span<const std::byte> payload_;
  uint32_t conflict_count_ = 0;
};

// Returns how many bytes of payload the frame of a chunk with this header
// stores, with padding; nothing if that depends on the descriptors.
std::optional<uint64_t> StoredPayloadBytes(const ChunkHeader& header);

// Returns the size of a frame's head with its padding, which is the number of
// bytes to read for FromFrame. `begin` must hold at least the first
// sizeof(ChunkHeader) bytes of the frame.
//
// Errors: DATA_LOSS if these bytes cannot begin a frame.
absl::StatusOr<uint64_t> FrameHeadSpan(std::span<const std::byte> begin);

// Returns the number of parts of a tensor, at least 1.
constexpr uint64_t PartCount(uint64_t tensor_bytes) {
  return tensor_bytes == 0 ? 1 : (tensor_bytes + kPartBytes - 1) / kPartBytes;
}

// Returns the XXH3-128 hash of `bytes`.
ContentHash HashBytes(std::span<const std::byte> bytes);

// Returns the hash of a sample, as in RecordDescriptor::sample_hash.
uint64_t HashSample(std::span<const std::byte> sample);

// Returns the hash of a tensor from the hashes of its parts in order.
ContentHash CombinePartHashes(std::span<const ContentHash> parts);

}  // namespace msitd::chunk
