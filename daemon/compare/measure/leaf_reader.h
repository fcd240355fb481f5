// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/work_observer.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// Reads the elements of a tensor that a view reads, in blocks at any position.
// Reading blocks in ascending order is cheap. Reading a block before the
// current one costs no more for a tensor of one rank; a tensor that is put
// together from shards is read again from its beginning.
//
// Thread-compatible.
class LeafReader {
 public:
  // Consecutive elements of the tensor.
  struct Block {
    uint64_t begin = 0;  // Number of the first element.
    std::span<const std::byte> bytes;
  };

  // Borrows the arguments. Errors: those of TensorStream::Open.
  static absl::StatusOr<std::unique_ptr<LeafReader>> Open(
      const TensorSource& source, WorkObserver& observer);

  virtual ~LeafReader() = default;

  // Type of the elements. For a sum, it differs from that of the shards.
  virtual DType dtype() const = 0;

  // Returns the block that has this element. It is valid until the next call.
  //
  // Errors: DATA_LOSS if the tensor has fewer elements; CANCELLED if the
  // observer ends the comparison; those of TensorStream::Fill.
  virtual absl::StatusOr<Block> At(uint64_t element) = 0;
};

}  // namespace msitd::compare
