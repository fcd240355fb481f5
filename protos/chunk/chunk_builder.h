// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/tensor_key.h"
#include "protos/chunk/chunk_draft.h"
#include "protos/chunk/chunk_format.h"

namespace msitd::chunk {

// What a record says of itself. The views need to live during the call only.
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
  uint64_t part_bytes = 0;
  std::string_view placement = {};  // Empty for a tensor that is no shard.
};

// Lays one chunk out in memory that the caller lends: the producer's half of
// the format. Depends on the standard library only, and does not judge what it
// is given beyond what fits; Chunk::FromProducer does.
//
// The payload grows from `payload_begin()`; the head is kept aside and placed
// right before it by Finish, so a finished chunk is contiguous and both parts
// are aligned, however many records it holds.
//
// Single-sequence: the thread that fills the slot.
class ChunkBuilder {
 public:
  // Bytes of memory that hold the largest chunk.
  static constexpr uint64_t kBufferBytes = kPieceBytes;

  // `buffer` begins at a multiple of kChunkAlignment, is kBufferBytes long and
  // outlives the builder, which may be reused by Start any number of times.
  explicit ChunkBuilder(std::span<std::byte> buffer);

  // Begins an empty chunk.
  void Start(std::string_view run, int32_t rank, uint64_t stream_id,
             uint64_t chunk_sequence);

  // Asks the daemon to keep summaries and hashes of the records only.
  void KeepSummariesOnly() { header_.flags |= kSummaryOnlyFlag; }
  // Asks it to keep a sample of each besides. Not both.
  void KeepSamples() { header_.flags |= kSampleFlag; }

  // Keeps a draft in the buffer from now on, which is the first thing to do
  // with a chunk once its flags are set. `number`, `client_time_ns`: see
  // DraftHeader. The caller says which records are written, and ends it.
  void StartDraft(uint64_t number, int64_t client_time_ns);

  // Adds a record and returns where its `part_bytes` bytes are to be written,
  // or an empty span with a null pointer if the chunk cannot hold it. A chunk
  // without records can hold every record inside the limits of limits.h.
  std::span<std::byte> Add(const RecordSpec& record);

  uint32_t record_count() const {
    return static_cast<uint32_t>(records_.size());
  }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // Completes the chunk and returns its bytes, which lie in the buffer and are
  // valid until the next Start. `client_time_ns`: see ChunkHeader.
  std::span<const std::byte> Finish(int64_t client_time_ns);

 private:
  TextRef Intern(std::string_view text);
  bool HeadFits(const RecordSpec& record) const;

  std::span<std::byte> buffer_;
  ChunkHeader header_;
  std::vector<RecordDescriptor> records_;
  // Text and dims; offsets count from the begin of tail_ until Finish.
  std::string tail_;
  std::unordered_map<std::string, TextRef> interned_;
  uint64_t payload_bytes_ = 0;
  bool has_draft_ = false;
};

}  // namespace msitd::chunk
