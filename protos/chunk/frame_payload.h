// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/sample.h"
#include "protos/chunk/chunk_format.h"

// The part of a chunk's payload that its frame stores: the unchanged payload,
// nothing, or the samples of its records in order. Computed from a validated
// head.
namespace msitd::chunk {

// How much of the payload the frame stores.
enum class Kept { kAll, kSample, kNothing };

constexpr Kept KeptOf(const ChunkHeader& header) {
  if ((header.flags & kSummaryOnlyFlag) != 0) return Kept::kNothing;
  return (header.flags & kSampleFlag) != 0 ? Kept::kSample : Kept::kAll;
}

// Returns the sampled elements that are in the record; empty for an alias.
SampleSlice SampleOf(const RecordDescriptor& record);

// Computes where a frame stores each record or its sample. Thread-compatible.
class FramePayload {
 public:
  explicit FramePayload(const ChunkHeader& header) : kept_(KeptOf(header)) {}

  struct RecordBytes {
    uint64_t offset = 0;  // Relative to the start of the frame's payload.
    uint64_t bytes = 0;
  };

  // Returns the location of the next record. Must be called with each record of
  // the chunk, in order.
  RecordBytes Next(const RecordDescriptor& record);

  // End of the bytes of the last record.
  uint64_t end() const { return end_; }

 private:
  const Kept kept_;
  uint64_t end_ = 0;
};

}  // namespace msitd::chunk
