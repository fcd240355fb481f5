// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protos/base/aligned_buffer.h"
#include "storage/face/types.h"
#include "storage/read/read_plan.h"
#include "storage/read/read_pool.h"
#include "storage/segment/segment_reader.h"

namespace msitd::storage {

// Reads of parts where they were said to be, which begin when this is made.
// See PartBatch. Thread-safe.
class PlannedReads {
 public:
  // `parts` say where their bytes are now. All outlive it; `buffer` is its own
  // until it goes.
  PlannedReads(SegmentReader& reader, ReadPool& pool,
               std::span<const PartInfo> parts, AlignedBuffer& buffer);

  // The first parts, which were planned.
  size_t size() const { return plan_.places.size(); }

  // Returns the bytes of a part once they are there; nothing if they could not
  // be read or do not match their hash.
  std::optional<std::span<const std::byte>> Find(size_t index);

 private:
  void Read(size_t index);

  SegmentReader& reader_;
  const std::span<const PartInfo> parts_;
  const ReadPlan plan_;
  AlignedBuffer& buffer_;
  // Bytes of each read that are there; seen once the job has done it.
  std::vector<uint64_t> read_bytes_;
  // Ends before what it works on does.
  ReadPool::Job job_;
};

}  // namespace msitd::storage
