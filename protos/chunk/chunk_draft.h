// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"

// The draft of a chunk: information with which the daemon can recover a chunk
// that its producer was still filling when it died. docs/format/ring.md
// specifies the bytes.
//
// A piece of shared memory holds one chunk. Its first kChunkHeadBytesMax bytes
// begin with the draft and end with the head of the finished chunk, which is
// followed by the payload.
//
//   DraftHeader | DraftRecord[1024] | text and dims | ... | head | payload
//
// The draft stays valid until the chunk is durable, so a chunk cannot be lost
// at any moment.
namespace msitd::chunk {

inline constexpr uint64_t kPieceBytes =
    kChunkHeadBytesMax + kChunkPayloadBytesMax;

// All loads and stores are relaxed, except where a field names the order.
struct DraftHeader {
  // Number of the chunk in the order in which the chunks of the stream were
  // begun, from 1; 0 if there is no draft. Stored with release order after all
  // other header fields when a draft begins.
  std::atomic<uint64_t> number;
  // chunk_sequence + 1 as of the last time the chunk was published; 0 before
  // that.
  std::atomic<uint64_t> sent_count;
  // Stored with release order after the record and its text.
  std::atomic<uint32_t> record_count;
  std::atomic<uint32_t> text_bytes;
  std::atomic<int64_t> client_time_ns;
  std::atomic<uint32_t> flags;  // As in ChunkHeader.
  uint32_t reserved[7];
};

// The bytes of a RecordDescriptor that precede its summary. `is_written`
// replaces reserved_1 and states whether all bytes of the record are written.
// Offsets of texts and dims count from the start of the draft's text.
struct DraftRecord {
  std::byte begin[offsetof(RecordDescriptor, reserved_1)];
  std::atomic<uint32_t> is_written;  // Stored with release order after the
                                     // payload.
  std::byte end[offsetof(RecordDescriptor, summary) -
                offsetof(RecordDescriptor, payload_offset)];
};

inline constexpr uint64_t kDraftTextOffset =
    sizeof(DraftHeader) + kChunkRecordsMax * sizeof(DraftRecord);
inline constexpr uint64_t kDraftTextBytesMax =
    kChunkHeadBytesMax - kDraftTextOffset;

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(DraftHeader) == 64);
static_assert(offsetof(DraftHeader, record_count) == 16);
static_assert(offsetof(DraftHeader, client_time_ns) == 24);
static_assert(offsetof(DraftHeader, flags) == 32);
static_assert(sizeof(DraftRecord) == 96);
static_assert(offsetof(DraftRecord, is_written) == 52);
static_assert(kDraftTextOffset == 98'368);

// The producer's view of the draft in one piece. Standard library only.
// Thread-compatible.
class Draft {
 public:
  // `piece` is kPieceBytes long, begins at a page and outlives the view.
  explicit Draft(std::span<std::byte> piece) : piece_(piece) {}

  // Begins the draft of an empty chunk.
  void Start(uint64_t number, uint32_t flags, int64_t client_time_ns);

  // True if a draft with `text_bytes` of text leaves room for a head of
  // `head_bytes` bytes.
  static bool Fits(uint64_t text_bytes, uint64_t head_bytes);

  // Adds the next record, with number `index`, whose bytes are not written yet.
  // `text` is the text of all records so far; the draft already has its first
  // `old_text_bytes` bytes.
  void Add(uint32_t index, const RecordDescriptor& record,
           std::string_view text, size_t old_text_bytes);

  // Changes the token of a record.
  void SetToken(uint32_t index, int64_t token);

  // Marks all bytes of the record as written.
  void SetWritten(uint32_t index);

  // Records that the chunk is about to be published under this number.
  void SetSent(uint64_t chunk_sequence);

  // Ends the draft: the daemon recovers nothing from this piece from now on.
  void End();

  // Copies the draft to `to`, another piece.
  void CopyTo(std::span<std::byte> to) const;

 private:
  DraftHeader& header() const {
    return *reinterpret_cast<DraftHeader*>(piece_.data());
  }
  DraftRecord& record(uint32_t index) const {
    return reinterpret_cast<DraftRecord*>(piece_.data() +
                                          sizeof(DraftHeader))[index];
  }

  std::span<std::byte> piece_;
};

}  // namespace msitd::chunk
