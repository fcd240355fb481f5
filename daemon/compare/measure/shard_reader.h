// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/work_observer.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Parts, or their samples, that are read ahead: those of `batch` from number
// `first` on. None if there is no batch.
struct PartsAhead {
  storage::PartBatch* batch = nullptr;
  size_t first = 0;
};

// Both sides of a pair. Of parts, neither or both are there.
struct PairAhead {
  PartsAhead target;
  PartsAhead golden;

  bool has_parts() const { return target.batch != nullptr; }
};

// True if what the index says of the parts, the shape and the type of a tensor
// is consistent. The index is read from disk, so it may be damaged.
bool HasAllParts(const storage::TensorInfo& tensor);
// Returns DATA_LOSS for a tensor for which HasAllParts is false.
absl::Status PartsDoNotFit(const storage::TensorInfo& tensor,
                           std::string_view label);

// Reads the bytes of one recorded tensor in order: part by part, or in runs of
// any length through a window.
//
// Thread-compatible. Borrows all that it is made from; `part` may be shared
// with other readers.
class ShardReader {
 public:
  // `label` names the tensor in errors. `window` keeps what was read ahead by
  // Read.
  ShardReader(std::string label, const storage::TensorInfo& tensor,
              storage::RunReader& run, WorkObserver& observer,
              AlignedBuffer& part, std::span<std::byte> window)
      : label_(std::move(label)),
        tensor_(tensor),
        run_(run),
        observer_(observer),
        part_(part),
        window_(window) {}

  // Takes the tensor, which has one part unless samples are read, from `ahead`,
  // where its parts are the first.
  void TakeAhead(const PartsAhead& ahead) { ahead_part_ = ahead; }

  // Checks HasAllParts, on which the calls below rely. Error: DATA_LOSS.
  absl::Status CheckParts() const;

  // Returns part `index`, in the buffer.
  //
  // Errors: DATA_LOSS and those of RunReader::ReadPart, which name the tensor.
  absl::StatusOr<std::span<const std::byte>> ReadPart(size_t index);

  // Returns the elements of the sample that lie in part `index`, in the buffer.
  //
  // Errors: CANCELLED once the observer says so; those of
  // RunReader::ReadSample, which name the tensor.
  absl::StatusOr<std::span<const std::byte>> ReadSample(size_t index);

  // Fills `out` with the next bytes. At least that many are left.
  //
  // Errors: CANCELLED once the observer says so, which is asked before every
  // part; those of ReadPart.
  absl::Status Read(std::span<std::byte> out);

 private:
  const std::string label_;
  const storage::TensorInfo& tensor_;
  storage::RunReader& run_;
  WorkObserver& observer_;
  AlignedBuffer& part_;
  PartsAhead ahead_part_;
  const std::span<std::byte> window_;
  std::span<const std::byte> ahead_;  // In the window.
  uint64_t position_ = 0;             // Behind `ahead_`, in the tensor.
};

}  // namespace msitd::compare
