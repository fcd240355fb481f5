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

// Reads parts from the places that they name; the reads begin when this is
// made. See PartBatch. Thread-safe.
class PlannedReads {
 public:
  // `parts` say where their bytes lie now. All arguments outlive it; `buffer`
  // belongs to it while it lives.
  PlannedReads(SegmentReader& reader, ReadPool& pool,
               std::span<const PartInfo> parts, AlignedBuffer& buffer);

  // How many of the parts were planned: the first ones.
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
  // How many bytes each read got. Valid once job_ has done that read.
  std::vector<uint64_t> read_bytes_;
  // Declared last, so that it ends before what it works on.
  ReadPool::Job job_;
};

}  // namespace msitd::storage
