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

// Reads the complete bytes of many small tensors of one run, in the order of
// their keys. Tensors that are stored close together are read at once. Each
// tensor is checked against its hash. Thread-compatible.
class SmallTensors {
 public:
  // Larger tensors are skipped.
  static constexpr uint64_t kTensorBytesMax = TensorReader::kPieceBytesMax;

  // Target size of a batch, which is looked up and read at once and stays in
  // memory: a batch that has this many bytes receives no further tensor.
  static constexpr uint64_t kBatchBytes = uint64_t{3} << 20;

  // The run in each key is ignored.
  SmallTensors(std::unique_ptr<storage::RunReader> run,
               std::vector<TensorKey> keys)
      : run_(std::move(run)), keys_(std::move(keys)) {}

  struct Tensor {
    size_t position = 0;              // Of its key.
    std::span<const std::byte> data;  // Valid until the next call.
  };

  // Stores the next tensor in `out`. Returns false at the end. Skips tensors
  // that do not exist, and tensors whose bytes have expired or are damaged.
  // Calls `stop` before each lookup of a tensor.
  //
  // Errors: that of `stop`; those of the store that do not concern a single
  // tensor.
  absl::StatusOr<bool> Next(storage::StopCheck stop, Tensor& out);

 private:
  struct Item {
    size_t position = 0;
    uint64_t tensor_bytes = 0;
    std::optional<size_t> part;  // Index into parts_; nullopt without bytes.
  };

  // Replaces the batch with the next tensors.
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
  // Reads the parts that start at parts_begin_. Declared after the members that
  // it borrows.
  size_t parts_begin_ = 0;
  std::unique_ptr<storage::PartBatch> batch_;
};

}  // namespace msitd::query
