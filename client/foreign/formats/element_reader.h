// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "client/foreign/formats/stored_tensor.h"

namespace msitd::formats {

// Reads the elements of one tensor in row-major order, in the form that msitd
// stores: little-endian, one byte for each small element, integers extended to
// the whole byte. Holds at most kHeldBytesMax, and nothing if the elements are
// already in that order. Thread-compatible.
class ElementReader {
 public:
  // Requires that CheckShape and CheckPlace have accepted `tensor`.
  explicit ElementReader(StoredTensor tensor);
  ~ElementReader();

  // Fills the beginning of `out` with the next whole elements and returns their
  // size in bytes; 0 after the last element. `out` has at least kReadBytesMin
  // bytes.
  absl::StatusOr<size_t> Read(std::span<std::byte> out);

 private:
  class Blocks;

  absl::Status ReadInOrder(std::span<std::byte> out);
  absl::Status ReadPacked(std::span<std::byte> out);
  absl::Status Gather(std::span<std::byte> out);
  absl::Status GatherRun(uint64_t element, uint64_t stride,
                         std::span<std::byte> out);
  absl::StatusOr<std::byte> PackedAt(uint64_t element);
  uint64_t OuterOffset() const;
  void NextRow();

  const StoredTensor tensor_;
  const uint32_t element_bytes_;
  const bool is_in_order_;
  uint64_t left_;      // Elements that have not been read.
  uint64_t done_ = 0;  // Elements that have been read.
  // Only for other orders: the indexes of the next element, and the bytes that
  // are held.
  std::vector<uint64_t> at_;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace msitd::formats
