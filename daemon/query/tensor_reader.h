// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

// A range of the bytes of a tensor or of its sample.
struct ByteRange {
  int64_t offset = 0;
  int64_t limit = 0;  // 0: to the end.
};

// Opens the run of a requested tensor. Returns NOT_FOUND with TENSOR_NOT_FOUND
// if the run does not exist.
absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenRunOf(
    storage::RunReaders& readers, const TensorKey& key);

enum class ReadWhat { kTensor, kSample };

// Reads a range of one tensor, or of its sample, piece by piece. Checks each
// part against its hash before returning any byte of it. Holds one part in
// memory. Thread-compatible; the readers must outlive it.
class TensorReader {
 public:
  // Maximum length of a piece, chosen so that it easily fits into a message.
  static constexpr uint64_t kPieceBytesMax = uint64_t{1} << 20;

  // Errors: NOT_FOUND (TENSOR_NOT_FOUND); FAILED_PRECONDITION
  // (TENSOR_EXPIRED); OUT_OF_RANGE (OFFSET_OUT_OF_RANGE); INVALID_ARGUMENT
  // (FIELD_INVALID) for a negative limit.
  static absl::StatusOr<TensorReader> Open(storage::RunReaders& readers,
                                           const TensorKey& key,
                                           const ByteRange& range,
                                           ReadWhat what = ReadWhat::kTensor);

  // The entry of the tensor.
  const storage::TensorInfo& tensor() const { return tensor_; }

  struct Piece {
    uint64_t offset = 0;              // In the tensor or the sample.
    std::span<const std::byte> data;  // Valid until the next call.
  };

  // Stores the next piece in `out`. Returns false at the end. An empty range
  // has one empty piece. Calls `stop` first. The first piece of a sample reads
  // all parts of the tensor and calls `stop` between them.
  //
  // Errors: that of `stop`; DATA_LOSS (FRAME_CORRUPT); FAILED_PRECONDITION
  // (TENSOR_EXPIRED).
  absl::StatusOr<bool> Next(storage::StopCheck stop, Piece& out);

 private:
  TensorReader(std::unique_ptr<storage::RunReader> run,
               storage::TensorInfo tensor, ReadWhat what, uint64_t begin,
               uint64_t end)
      : run_(std::move(run)),
        tensor_(std::move(tensor)),
        what_(what),
        next_(begin),
        end_(end) {}

  absl::Status LoadPart(uint64_t part_index);
  // Loads the whole sample in place of a part.
  absl::Status LoadSample(storage::StopCheck stop);

  std::unique_ptr<storage::RunReader> run_;
  storage::TensorInfo tensor_;
  ReadWhat what_;
  uint64_t next_;
  uint64_t end_;
  bool started_ = false;
  AlignedBuffer buffer_;
  std::vector<std::byte> sample_;
  uint64_t part_index_ = 0;
  std::span<const std::byte> part_;  // In buffer_ or sample_, once started.
};

}  // namespace msitd::query
