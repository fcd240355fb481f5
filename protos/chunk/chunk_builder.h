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

// Identifies an earlier record of the same rank, device and token with equal
// bytes.
struct AliasSpec {
  std::string_view op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string_view index;
};

// Describes one record. The views must be valid only during the call. Setting
// any field after `placement` to something other than its default requires a
// later version of the chunk; see VersionFor.
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
  uint64_t part_bytes = 0;          // Size of the record's payload; 0 for an
                                    // alias.
  std::string_view placement = {};  // Empty for a tensor that is not a shard.
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};
  // Value text, for kinds of records that have one; see RecordExtra.
  std::optional<std::string_view> value = {};
  std::string_view stack = {};  // Empty if unknown.
  std::optional<AliasSpec> alias = {};
  // The payload begins with the digest of the part; see kDigestSpan.
  bool has_digest = false;
};

// Returns the lowest version of a chunk that can hold the record.
uint16_t VersionFor(const RecordSpec& record);

// Lays out one chunk in memory that the caller provides: the producer's half of
// the format. Depends on the standard library only. Checks only that a record
// fits; Chunk::FromProducer performs all other checks.
//
// The payload starts at kChunkHeadBytesMax. The length of the head is known
// only at the end, so the descriptor table and the text are kept outside the
// buffer, with offsets relative to the start of the text. Finish makes these
// offsets relative to the head and places the head directly before the payload.
// A finished chunk is therefore contiguous, both parts are aligned, and payload
// bytes are never moved.
//
// Used by a single thread, the one that fills the slot.
class ChunkBuilder {
 public:
  // Size of the buffer, which has room for the largest chunk.
  static constexpr uint64_t kBufferBytes = kPieceBytes;

  // `buffer` must begin at a multiple of kChunkAlignment, be kBufferBytes long
  // and outlive the builder. Start may be called any number of times.
  explicit ChunkBuilder(std::span<std::byte> buffer);

  // Begins an empty chunk.
  void Start(std::string_view run, int32_t rank, uint64_t stream_id,
             uint64_t chunk_sequence);

  // Requests that the daemon stores only summaries and hashes of the records.
  void KeepSummariesOnly() { header_.flags |= kSummaryOnlyFlag; }
  // Requests that the daemon also stores a sample of each record. Cannot be
  // combined with KeepSummariesOnly.
  void KeepSamples() { header_.flags |= kSampleFlag; }

  // Maintains a draft in the buffer from now on. Must be called directly after
  // the flags are set, before the first Add. See DraftHeader for `number` and
  // `client_time_ns`. The caller marks records as written and ends the draft;
  // see Draft.
  void StartDraft(uint64_t number, int64_t client_time_ns);

  // Adds a record and returns the memory for its `part_bytes` bytes. Returns an
  // empty span with a null pointer if the chunk has no room for the record. A
  // chunk without records has room for any record within the limits of
  // limits.h.
  std::span<std::byte> Add(const RecordSpec& record);

  // Removes record number `index` from the chunk, but not from its draft. Its
  // space in the payload stays unused, and its number is not reused. Must be
  // called at most once for a record, before Finish.
  void LeaveOut(uint32_t index);

  // Adds `by` to the token of each record. Must be called before Finish.
  void ShiftTokens(int64_t by);

  // Number of records added so far.
  uint32_t record_count() const {
    return static_cast<uint32_t>(records_.size());
  }
  // True if all records were removed. Such a chunk cannot be finished, because
  // daemons refuse a chunk without records.
  bool has_nothing() const { return left_out_count_ == record_count(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Completes the chunk and returns its bytes, which are part of the buffer and
  // valid until the next Start. See ChunkHeader for `client_time_ns`.
  std::span<const std::byte> Finish(int64_t client_time_ns);

 private:
  TextRef Intern(std::string_view text);
  bool HeadFits(const RecordSpec& record) const;
  void AddExtra(const RecordSpec& record);

  std::span<std::byte> buffer_;
  ChunkHeader header_;
  std::vector<RecordDescriptor> records_;
  // Number of records marked with kLeftOut.
  uint32_t left_out_count_ = 0;
  // Text and dims. Until Finish, offsets count from the start of tail_.
  std::string tail_;
  std::unordered_map<std::string, TextRef> interned_;
  uint64_t payload_bytes_ = 0;
  bool has_draft_ = false;
};

}  // namespace msitd::chunk
