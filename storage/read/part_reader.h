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

// Reads the bytes of parts, wherever in the log they lie by now: a part that
// shares its bytes has them at a later place than its own. Thread-safe.
class PartReader {
 public:
  // `index` and `segments` outlive it.
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

  // True if the bytes of a part, or its sample, have been given up.
  bool IsExpired(RunId run, const PartInfo& part);
  // Returns TENSOR_EXPIRED in place of `failure` if the run has no bytes in the
  // segment of the part any more, because it was deleted.
  absl::Status FailureOf(RunId run, const PartInfo& part,
                         const absl::Status& failure);
  // Returns where the bytes of a part lie now, as far as the index can tell.
  PartPlace PlaceOf(RunId run, const PartInfo& part);
  // Returns the place to try after the bytes of `part` were not found intact at
  // `place`, for which `failure` is the error. Returns `failure` if there is no
  // later place.
  absl::StatusOr<PartPlace> NextPlace(RunId run, const PartInfo& part,
                                      const PartPlace& place,
                                      const absl::Status& failure);

  IndexGate& index_;
  SegmentReader& segments_;
  ReadPool pool_;
};

}  // namespace msitd::storage
