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

// Parts or samples that are read ahead: the entries of `batch` from number
// `first`. Nothing is read ahead if `batch` is null.
struct PartsAhead {
  storage::PartBatch* batch = nullptr;
  size_t first = 0;
};

// The data of both sides of a pair that is read ahead. Parts are read ahead for
// both sides or for neither, samples possibly for one side only.
struct PairAhead {
  PartsAhead target;
  PartsAhead golden;

  bool has_parts() const { return target.batch != nullptr; }
};

// Returns whether the parts, the shape and the type of a tensor are consistent.
// They are read from the index on disk, which may be damaged.
bool HasAllParts(const storage::TensorInfo& tensor);
// Returns the DATA_LOSS error for a tensor for which HasAllParts returns false.
absl::Status PartsDoNotFit(const storage::TensorInfo& tensor,
                           std::string_view label);

// Reads the bytes of one recorded tensor in order. ReadPart returns whole parts
// without copying them. Read copies runs of any length; it keeps the rest of a
// part in a window, so that a part is not read again for each run.
//
// Thread-compatible. Borrows all arguments. Other readers may use the same
// `part` buffer.
class ShardReader {
 public:
  // `label` names the tensor in errors. `part` is the buffer for the part that
  // is being read. `window` is memory for bytes that Read has read ahead, and
  // may be empty if Read is not called.
  ShardReader(std::string label, const storage::TensorInfo& tensor,
              storage::RunReader& run, WorkObserver& observer,
              AlignedBuffer& part, std::span<std::byte> window)
      : label_(std::move(label)),
        tensor_(tensor),
        run_(run),
        observer_(observer),
        part_(part),
        window_(window) {}

  // Makes the reader use data that is read ahead. `ahead` must begin with the
  // only part of the tensor or with the samples of all its parts.
  void TakeAhead(const PartsAhead& ahead) { ahead_part_ = ahead; }

  // Returns DATA_LOSS unless HasAllParts is true, which the functions below
  // require.
  absl::Status CheckParts() const;

  // Returns part number `index`. The bytes are valid until the buffer `part` is
  // used again.
  //
  // Errors: DATA_LOSS and those of RunReader::ReadPart, which name the tensor.
  absl::StatusOr<std::span<const std::byte>> ReadPart(size_t index);

  // Returns the sampled elements that are in part number `index`. The bytes are
  // valid as long as those of ReadPart.
  //
  // Errors: CANCELLED if the observer ends the comparison; those of
  // RunReader::ReadSample, which name the tensor.
  absl::StatusOr<std::span<const std::byte>> ReadSample(size_t index);

  // Fills `out` with the next bytes. There must be at least `out.size()` bytes
  // left.
  //
  // Errors: CANCELLED if the observer ends the comparison, which is checked
  // before each part; those of ReadPart.
  absl::Status Read(std::span<std::byte> out);

 private:
  const std::string label_;
  const storage::TensorInfo& tensor_;
  storage::RunReader& run_;
  WorkObserver& observer_;
  AlignedBuffer& part_;
  PartsAhead ahead_part_;
  const std::span<std::byte> window_;
  std::span<const std::byte> ahead_;  // The unread bytes of the window.
  // Offset in the tensor of the first byte after `ahead_`.
  uint64_t position_ = 0;
};

}  // namespace msitd::compare
