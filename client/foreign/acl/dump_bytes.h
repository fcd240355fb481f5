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

// The bytes of a file that comes in slices, in any order. Where slices overlap,
// the later one counts, as in a file. Thread-compatible.
class DumpBytes {
 public:
  // Bytes of one slice.
  struct Piece {
    std::shared_ptr<const std::byte[]> memory;
    // Where they begin in `memory`.
    size_t begin = 0;
    size_t size = 0;
  };
  // Where they begin in the file.
  using Pieces = std::map<uint64_t, Piece>;

  // The sum of both is at most kTensorBytesMax.
  void Put(uint64_t offset, std::shared_ptr<const std::byte[]> memory,
           size_t size);

  // Where the file ends, as far as is known.
  uint64_t end() const { return end_; }
  // How many bytes are there from its beginning on, without a gap.
  uint64_t prefix() const { return prefix_; }

  // Moves that prefix out.
  std::shared_ptr<const formats::ByteSource> TakePrefix();

 private:
  void Cut(uint64_t begin, uint64_t end);

  // None overlap.
  Pieces pieces_;
  uint64_t end_ = 0;
  uint64_t prefix_ = 0;
};

}  // namespace msitd::acl
