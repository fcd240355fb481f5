// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/sample.h"
#include "protos/chunk/chunk_format.h"

// What the frame of a chunk holds of its payload: all of it as it came,
// nothing, or the samples of its records, one behind the other. Computed from
// the head alone, which has passed its checks.
namespace msitd::chunk {

// How much of the payload the frame holds.
enum class Kept { kAll, kSample, kNothing };

constexpr Kept KeptOf(const ChunkHeader& header) {
  if ((header.flags & kSummaryOnlyFlag) != 0) return Kept::kNothing;
  return (header.flags & kSampleFlag) != 0 ? Kept::kSample : Kept::kAll;
}

// Returns the sampled elements that lie in the record: none in an alias.
SampleSlice SampleOf(const RecordDescriptor& record);

// Finds where a frame holds each record, or its sample. Thread-compatible.
class FramePayload {
 public:
  explicit FramePayload(const ChunkHeader& header) : kept_(KeptOf(header)) {}

  struct Place {
    uint64_t offset = 0;  // From the begin of the frame's payload.
    uint64_t bytes = 0;
  };

  // Returns the place of the next record. Called with each record of the chunk,
  // in order.
  Place Next(const RecordDescriptor& record);

  // Where the bytes of the last record end.
  uint64_t end() const { return end_; }

 private:
  const Kept kept_;
  uint64_t end_ = 0;
};

}  // namespace msitd::chunk
