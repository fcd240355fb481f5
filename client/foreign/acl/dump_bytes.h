// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "client/foreign/formats/byte_source.h"

namespace msitd::acl {

// The bytes of a file that arrives in slices, in any order. Where slices
// overlap, the later one replaces the earlier one, as in a file.
// Thread-compatible.
class DumpBytes {
 public:
  // The bytes of one slice.
  struct Piece {
    std::shared_ptr<const std::byte[]> memory;
    // The offset of the first byte in `memory`.
    size_t begin = 0;
    size_t size = 0;
  };
  // Keyed by their offset in the file.
  using Pieces = std::map<uint64_t, Piece>;

  // Adds a slice. The sum of `offset` and `size` is at most kTensorBytesMax.
  void Put(uint64_t offset, std::shared_ptr<const std::byte[]> memory,
           size_t size);

  // The end of the file, as far as it is known.
  uint64_t end() const { return end_; }
  // The number of bytes from the beginning of the file to the first gap.
  uint64_t prefix() const { return prefix_; }

  // Moves these bytes out.
  std::shared_ptr<const formats::ByteSource> TakePrefix();

 private:
  void Cut(uint64_t begin, uint64_t end);

  // Pieces do not overlap.
  Pieces pieces_;
  uint64_t end_ = 0;
  uint64_t prefix_ = 0;
};

}  // namespace msitd::acl
