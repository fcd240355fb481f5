// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"
#include "storage/index/index_gate.h"
#include "storage/read/read_pool.h"
#include "storage/segment/segment_reader.h"

namespace msitd::storage {

// Reads the bytes of parts from their current location in the log. A part that
// shares its bytes has them at a later location than its own. Thread-safe.
class PartReader {
 public:
  // `index` and `segments` must outlive this object.
  PartReader(IndexGate& index, SegmentReader& segments)
      : index_(index), segments_(segments) {}

  // See ReadPart, ReadParts and ReadSample of RunReader. `run` is the run of
  // the parts.
  absl::StatusOr<std::span<const std::byte>> Read(RunId run,
                                                  const PartInfo& part,
                                                  AlignedBuffer& buffer);
  std::unique_ptr<PartBatch> ReadBatch(RunId run,
                                       std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer);
  absl::StatusOr<std::span<const std::byte>> ReadSample(
      RunId run, const TensorInfo& tensor, size_t part, AlignedBuffer& buffer);

 private:
  class Batch;

  // True if the bytes of a part, or its sample, have been discarded.
  bool IsExpired(RunId run, const PartInfo& part);
  // Returns TENSOR_EXPIRED instead of `failure` if the run has no bytes in the
  // segment of the part any more, because it was deleted.
  absl::Status FailureOf(RunId run, const PartInfo& part,
                         const absl::Status& failure);
  // Returns the current location of the bytes of a part according to the index.
  PartPlace PlaceOf(RunId run, const PartInfo& part);
  // Returns the next location to try after the bytes of `part` at `place` could
  // not be read intact, with the error `failure`. Returns `failure` if there is
  // no later location.
  absl::StatusOr<PartPlace> NextPlace(RunId run, const PartInfo& part,
                                      const PartPlace& place,
                                      const absl::Status& failure);

  IndexGate& index_;
  SegmentReader& segments_;
  ReadPool pool_;
};

}  // namespace msitd::storage
