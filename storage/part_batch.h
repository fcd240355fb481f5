// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace msitd::storage {

// Memory that the parts of a batch take together, one part alone excepted:
// further ones are left to the next batch. A part that is no longer where it
// was said to be takes as much again.
inline constexpr uint64_t kBatchBytesMax = uint64_t{12} << 20;
// Parts of a batch.
inline constexpr size_t kBatchPartsMax = 8192;

// The bytes of parts that will be asked for, read by other threads while the
// caller does something else: parts that lie near each other with one read.
//
// Made by ChunkStore::ReadParts. Thread-safe.
class PartBatch {
 public:
  // Leaves out what is not being read yet, and waits for the rest.
  virtual ~PartBatch() = default;

  // How many parts it has of those that it was made of: the first ones.
  virtual size_t size() const = 0;

  // Returns the bytes of part `index`, which is below size(), once they are
  // there; they stay until the batch goes. Checks them against the part's hash.
  // Parts are best asked for in their order.
  //
  // Errors: those of ChunkStore::ReadPart.
  virtual absl::StatusOr<std::span<const std::byte>> Read(size_t index) = 0;
};

}  // namespace msitd::storage
