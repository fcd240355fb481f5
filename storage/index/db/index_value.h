// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/base/stream_coverage.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"
#include "storage/face/types.h"

// Values of the index (docs/format/index.md). Each begins with its version
// number; a decoder returns false for an unknown version.
namespace msitd::storage {

// Entry of the primary index for one part.
struct IndexValue {
  DType dtype = DType::kUnspecified;
  // At most one of the two is true. `offset` is the start of the bytes or of
  // the sample.
  bool has_bytes = true;
  bool has_sample = false;
  std::vector<int64_t> dims;  // Dimensions of the whole tensor, like the next
                              // two fields.
  uint64_t tensor_bytes = 0;
  uint64_t sequence = 0;
  uint64_t segment_id = 0;
  uint64_t offset = 0;  // Offset in the file.
  ContentHash hash;
  uint64_t sample_hash = 0;  // Valid if there is a sample.
  Summary summary;
  // Summary and hash are claims of the producer, which sent no bytes.
  bool is_claimed = false;
  uint32_t placement = 0;  // Number of its name; 0 if the tensor is not a
                           // shard.
  RecordKind kind = RecordKind::kTensor;

  // Only the first part has the following fields.
  std::optional<bool> requires_grad;
  bool has_value = false;
  std::string value;
  uint32_t stack = 0;  // Number of its text; 0 if there is none.
  // The original of an alias; `segment_id` and `offset` are the location of the
  // original's bytes. The numbers of names are 0 if the record is not an alias.
  uint32_t alias_op = 0;
  uint32_t alias_index = 0;
  uint32_t alias_call = 0;
  Io alias_io = Io::kUnspecified;

  // Resets the entry to one without extras, of a tensor.
  void ClearExtras() {
    kind = RecordKind::kTensor;
    requires_grad.reset();
    has_value = false;
    value.clear();
    stack = alias_op = alias_index = alias_call = 0;
    alias_io = Io::kUnspecified;
  }

  // True if parts with these values can belong to one tensor.
  bool SameTensor(const IndexValue& other) const {
    return dtype == other.dtype && tensor_bytes == other.tensor_bytes &&
           kind == other.kind && dims == other.dims;
  }
};

// Returns the size of part `part` of a tensor of `tensor_bytes` bytes.
constexpr uint64_t PartBytes(uint64_t tensor_bytes, uint64_t part) {
  const uint64_t rest = tensor_bytes - part * kPartBytes;
  return rest < kPartBytes ? rest : kPartBytes;
}

// True if the entry has extras, which may refer to names. Very cheap.
bool HasExtras(std::string_view entry);

// Encodes `value` and replaces the contents of `out`.
void EncodeIndexValue(const IndexValue& value, std::string& out);
// Decodes an entry into `out`, whose memory is reused.
bool DecodeIndexValue(std::string_view bytes, IndexValue& out);

// The id of the store that the index belongs to. The version of this value is
// also the version of the keys and of the frames.
std::string EncodeStoreId(uint64_t store_id);
// Also reads the versions of older programs, for which it sets `is_newest` to
// false.
bool DecodeStoreId(std::string_view bytes, uint64_t& out, bool& is_newest);
// Returns the version of a value that DecodeStoreId cannot read, if a newer
// program may have written it; 0 if it is damaged.
int NewerStoreVersion(std::string_view bytes);
// Returns the version that this program writes.
int StoreVersion();

// Key in the meta table of the number that the next run gets, in big endian.
inline constexpr std::string_view kNextRunIdKey = "next_run_id";

// Encodes a run without its counters and its name, which is the key.
std::string EncodeRun(const RunInfo& run);
bool DecodeRun(std::string_view bytes, RunInfo& out);

// Encodes the counters that are computed from frames; other counters have
// separate values.
std::string EncodeCounters(const RunCounters& counters);
bool DecodeCounters(std::string_view bytes, RunCounters& out);

// How much of the log has been indexed. Written in one batch with the entries,
// so that a crash preserves both or neither.
struct LogPosition {
  uint64_t segment_id = 0;
  uint64_t offset = 0;  // End of the last indexed frame.
  uint64_t next_frame_sequence = 1;
};

std::string EncodePosition(const LogPosition& position);
bool DecodePosition(std::string_view bytes, LogPosition& out);

// How many bytes of a run have been discarded in one segment.
struct ExpiryMark {
  // Covers all frames, including future ones.
  static constexpr uint64_t kAll = uint64_t{1} << 62;

  uint64_t end = 0;        // Offset in the file, or kAll for the whole segment.
  uint64_t freed_end = 0;  // Offset up to which the space has been reclaimed.
  uint64_t bytes = 0;      // Number of discarded payload bytes.
};

std::string EncodeExpiryMark(const ExpiryMark& mark);
bool DecodeExpiryMark(std::string_view bytes, ExpiryMark& out);

// Location of the bytes of a part.
struct BytePlace {
  uint64_t segment_id = 0;
  uint64_t offset = 0;  // Offset in the file.

  // Order of the log.
  friend auto operator<=>(const BytePlace&, const BytePlace&) = default;
};

std::string EncodeBytePlace(const BytePlace& place);
bool DecodeBytePlace(std::string_view bytes, BytePlace& out);

// A range of bytes of a file.
struct ByteRange {
  BytePlace begin;
  uint64_t bytes = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

std::string EncodeByteRanges(const std::vector<ByteRange>& ranges);
bool DecodeByteRanges(std::string_view bytes, std::vector<ByteRange>& out);

// Number of durable chunks of a stream.
std::string EncodeChunkCount(uint64_t count);
bool DecodeChunkCount(std::string_view bytes, uint64_t& out);

// State of the clocks when AgeClock wrote the mark.
struct ClockMark {
  std::string boot_id;
  int64_t wall_ns = 0;
  int64_t boot_ns = 0;
  int64_t steady_since_ns = 0;
  int64_t set_ns = 0;
  int64_t drift_ns = 0;
};

std::string EncodeClockMark(const ClockMark& mark);
bool DecodeClockMark(std::string_view bytes, ClockMark& out);

// Progress of the removal of a deleted run; see GoneTable.
std::string EncodeGoneStage(uint8_t stage);
bool DecodeGoneStage(std::string_view bytes, uint8_t& out);

std::string EncodeRepeats(const StreamRepeats& repeats);
bool DecodeRepeats(std::string_view bytes, StreamRepeats& out);

std::string EncodeCoverage(const StreamCoverage& coverage);
bool DecodeCoverage(std::string_view bytes, StreamCoverage& out);

}  // namespace msitd::storage
