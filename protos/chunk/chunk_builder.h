// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "protos/chunk/chunk_draft.h"
#include "protos/chunk/chunk_format.h"

namespace msitd::chunk {

// Names an earlier record of the same rank, device and token, whose bytes are
// equal.
struct AliasSpec {
  std::string_view op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string_view index;
};

// Describes one record. The views need to live only during the call. Whatever
// lies behind `placement` makes the chunk one of a later version, unless it is
// left as it is here; see VersionFor.
struct RecordSpec {
  uint64_t sequence = 0;
  std::string_view device;
  int64_t token = 0;
  std::string_view op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string_view index;
  DType dtype = DType::kUnspecified;
  std::span<const int64_t> dims;
  uint64_t tensor_bytes = 0;
  uint64_t part_offset = 0;
  uint64_t part_bytes = 0;          // Of its payload; none of an alias.
  std::string_view placement = {};  // Empty for a tensor that is no shard.
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};
  // Of records with a value text; see RecordExtra.
  std::optional<std::string_view> value = {};
  std::string_view stack = {};  // Empty if it is not known.
  std::optional<AliasSpec> alias = {};
  // The payload begins with the digest of the part; see kDigestSpan.
  bool has_digest = false;
};

// Returns the lowest version of a chunk that can hold the record.
uint16_t VersionFor(const RecordSpec& record);

// Lays one chunk out in memory that the caller lends: the producer's half of
// the format. Depends on the standard library only. Checks only that a record
// fits; Chunk::FromProducer checks the rest.
//
// The payload grows from kChunkHeadBytesMax on. How long the head gets is known
// only at the end, so the table and the text are kept aside, with offsets that
// count from the start of the text; Finish makes these offsets count from the
// head and places the head right before the payload. So a finished chunk is
// contiguous and both parts are aligned, and no payload byte ever moves.
//
// Single-sequence: the thread that fills the slot.
class ChunkBuilder {
 public:
  // Size of the buffer: room for the largest chunk.
  static constexpr uint64_t kBufferBytes = kPieceBytes;

  // `buffer` begins at a multiple of kChunkAlignment, is kBufferBytes long and
  // outlives the builder. Start may be called any number of times.
  explicit ChunkBuilder(std::span<std::byte> buffer);

  // Begins an empty chunk.
  void Start(std::string_view run, int32_t rank, uint64_t stream_id,
             uint64_t chunk_sequence);

  // Asks the daemon to keep only summaries and hashes of the records.
  void KeepSummariesOnly() { header_.flags |= kSummaryOnlyFlag; }
  // Asks the daemon to keep a sample of each record besides. Not together with
  // KeepSummariesOnly.
  void KeepSamples() { header_.flags |= kSampleFlag; }

  // Keeps a draft in the buffer from now on. Called right after the flags are
  // set, before the first Add. `number`, `client_time_ns`: see DraftHeader. The
  // caller marks records as written and ends the draft; see Draft.
  void StartDraft(uint64_t number, int64_t client_time_ns);

  // Adds a record and returns the place for its `part_bytes` bytes. Returns an
  // empty span with a null pointer if the chunk cannot hold the record; a chunk
  // without records can hold every record inside the limits of limits.h.
  std::span<std::byte> Add(const RecordSpec& record);

  // Takes record number `index` out of the chunk, but not out of its draft. Its
  // place in the payload stays empty, and no other record gets it or its
  // number. Called once for a record, before Finish.
  void LeaveOut(uint32_t index);

  // Adds `by` to the token of each record. Called before Finish.
  void ShiftTokens(int64_t by);

  // Records added so far.
  uint32_t record_count() const {
    return static_cast<uint32_t>(records_.size());
  }
  // True if all of them are left out. Such a chunk cannot be finished: no
  // daemon takes a chunk without records.
  bool has_nothing() const { return left_out_count_ == record_count(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Completes the chunk and returns its bytes, which lie in the buffer and are
  // valid until the next Start. `client_time_ns`: see ChunkHeader.
  std::span<const std::byte> Finish(int64_t client_time_ns);

 private:
  TextRef Intern(std::string_view text);
  bool HeadFits(const RecordSpec& record) const;
  void AddExtra(const RecordSpec& record);

  std::span<std::byte> buffer_;
  ChunkHeader header_;
  std::vector<RecordDescriptor> records_;
  // How many of them bear kLeftOut.
  uint32_t left_out_count_ = 0;
  // Text and dims. Until Finish, offsets count from the start of tail_.
  std::string tail_;
  std::unordered_map<std::string, TextRef> interned_;
  uint64_t payload_bytes_ = 0;
  bool has_draft_ = false;
};

}  // namespace msitd::chunk
