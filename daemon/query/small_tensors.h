// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/query/tensor_reader.h"
#include "protos/base/tensor_key.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

// Reads the bytes of many small tensors of one run, whole, in the order of
// their keys. Tensors that lie near each other are read at once. Checks each
// against its hash. Thread-compatible.
class SmallTensors {
 public:
  // A larger tensor is passed over.
  static constexpr uint64_t kTensorBytesMax = TensorReader::kPieceBytesMax;

  // The tensors that are looked up and read at once: no further one is taken
  // from so many bytes on. They stay in memory together.
  static constexpr uint64_t kBatchBytes = uint64_t{3} << 20;

  // The run of a key is not looked at.
  SmallTensors(std::unique_ptr<storage::RunReader> run,
               std::vector<TensorKey> keys)
      : run_(std::move(run)), keys_(std::move(keys)) {}

  struct Tensor {
    size_t position = 0;              // Of its key.
    std::span<const std::byte> data;  // Valid until the next call.
  };

  // Puts the next tensor into `out`; false at the end. Passes over those that
  // are not there, or whose bytes have been given up or are damaged. Asks
  // `stop` before each tensor that is looked up.
  //
  // Errors: that of `stop`; those of the store that are about no tensor.
  absl::StatusOr<bool> Next(storage::StopCheck stop, Tensor& out);

 private:
  struct Item {
    size_t position = 0;
    uint64_t tensor_bytes = 0;
    std::optional<size_t> part;  // In parts_; none without bytes.
  };

  // Replaces the batch by the next tensors.
  absl::Status Load(storage::StopCheck stop);
  // Returns the bytes of an item.
  absl::StatusOr<std::span<const std::byte>> Read(const Item& item);

  const std::unique_ptr<storage::RunReader> run_;
  const std::vector<TensorKey> keys_;
  size_t next_key_ = 0;
  std::vector<Item> items_;
  size_t next_item_ = 0;
  std::vector<storage::PartInfo> parts_;
  AlignedBuffer buffer_;
  // Reads the parts from parts_begin_ on. Declared behind what it borrows.
  size_t parts_begin_ = 0;
  std::unique_ptr<storage::PartBatch> batch_;
};

}  // namespace msitd::query
