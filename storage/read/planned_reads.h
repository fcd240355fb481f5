// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protos/os/aligned_buffer.h"
#include "storage/face/types.h"
#include "storage/read/read_plan.h"
#include "storage/read/read_pool.h"
#include "storage/segment/segment_reader.h"

namespace msitd::storage {

// Reads parts from the locations that they state. The reads begin on
// construction. See PartBatch. Thread-safe.
class PlannedReads {
 public:
  // `parts` must have the current locations of their bytes. All arguments must
  // outlive this object, which has exclusive use of `buffer`.
  PlannedReads(SegmentReader& reader, ReadPool& pool,
               std::span<const PartInfo> parts, AlignedBuffer& buffer);

  // Number of planned parts, counted from the first.
  size_t size() const { return plan_.places.size(); }

  // Waits for and returns the bytes of a part; nothing if they could not be
  // read or do not match their hash.
  std::optional<std::span<const std::byte>> Find(size_t index);

 private:
  void Read(size_t index);

  SegmentReader& reader_;
  const std::span<const PartInfo> parts_;
  const ReadPlan plan_;
  AlignedBuffer& buffer_;
  // Number of bytes that each read returned. Valid after job_ has completed
  // that read.
  std::vector<uint64_t> read_bytes_;
  // Declared last, so that it is destroyed before the data that it uses.
  ReadPool::Job job_;
};

}  // namespace msitd::storage
