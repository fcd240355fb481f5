// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"

// What the daemon needs of a chunk that its producer is still filling, in case
// the producer dies: docs/format/ring.md has the bytes.
//
// A piece of shared memory holds one chunk. Its first kChunkHeadBytesMax bytes
// have room for the draft, at their begin, and for the head of the finished
// chunk, at their end; the payload lies behind them.
//
//   DraftHeader | DraftRecord[1024] | text and dims | ... | head | payload
//
// The draft stays true until the daemon has the chunk for good, so nothing is
// lost between two of its states.
namespace msitd::chunk {

inline constexpr uint64_t kPieceBytes =
    kChunkHeadBytesMax + kChunkPayloadBytesMax;

// All loads and stores are relaxed but where a partner is named.
struct DraftHeader {
  // 1, 2, 3, ... as the chunks of the stream were begun; 0 where there is no
  // draft. Released behind all else of the header when a draft begins.
  std::atomic<uint64_t> number;
  // chunk_sequence + 1 of the last time that the chunk was published; 0 before.
  std::atomic<uint64_t> sent_count;
  // Released behind the record and its text.
  std::atomic<uint32_t> record_count;
  std::atomic<uint32_t> text_bytes;
  std::atomic<int64_t> client_time_ns;
  std::atomic<uint32_t> flags;  // As in ChunkHeader.
  uint32_t reserved[7];
};

// The first bytes of a RecordDescriptor, whose reserved_1 says instead whether
// the bytes of the record are all there. Texts and dims count from the begin of
// the text of the draft.
struct DraftRecord {
  std::byte begin[offsetof(RecordDescriptor, reserved_1)];
  std::atomic<uint32_t> is_written;  // Released behind the payload.
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

  // True if a draft with so much text leaves room for a head of `head_bytes`.
  static bool Fits(uint64_t text_bytes, uint64_t head_bytes);

  // Adds record `index`, the next one, whose bytes are not there yet. `text` is
  // that of all records, of which the first `old_text_bytes` are in the draft.
  void Add(uint32_t index, const RecordDescriptor& record,
           std::string_view text, size_t old_text_bytes);

  // The bytes of the record are all there.
  void SetWritten(uint32_t index);

  // The chunk is about to be published under this number.
  void SetSent(uint64_t chunk_sequence);

  // There is no draft any more.
  void End();

  // Makes `to`, another piece, hold the same draft.
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
